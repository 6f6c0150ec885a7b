"""A PostgreSQL of the checkout's own, started when it is needed and stopped with its last holder."""

try:
    from ledgence_project.embedded.cluster import Cluster, ClusterFailed
    from ledgence_project.embedded.owner import held, remove, stop
except ModuleNotFoundError as error:
    # The packages are installed without what only a checkout needs.
    raise ModuleNotFoundError(
        f"The embedded database needs the package {error.name}: run 'make install' in the checkout, and use its "
        ".venv/bin/python.",
        name=error.name,
    ) from None

__all__ = ["Cluster", "ClusterFailed", "held", "remove", "stop"]
