"""A PostgreSQL of the checkout's own, started when it is needed and stopped with its last holder."""

from ledgence_project.embedded.cluster import Cluster, ClusterFailed
from ledgence_project.embedded.owner import held, remove, stop

__all__ = ["Cluster", "ClusterFailed", "held", "remove", "stop"]
