"""A real broker on this machine's loopback interface, for tests, measurements and the demonstration: ElasticMQ."""

from ledgence_project.elasticmq.jars import ElasticMQMissing, fetch
from ledgence_project.elasticmq.server import ElasticMQ, ElasticMQFailed, elasticmq

__all__ = ["ElasticMQ", "ElasticMQFailed", "ElasticMQMissing", "elasticmq", "fetch"]
