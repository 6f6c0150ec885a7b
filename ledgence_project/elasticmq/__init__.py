"""A real broker on this machine's loopback interface, for tests, measurements and the demonstration: ElasticMQ."""

from ledgence_project.elasticmq.jars import ElasticMQMissing, fetch
from ledgence_project.elasticmq.process import ServerFailed, SqsProcess
from ledgence_project.elasticmq.server import ElasticMQ

__all__ = ["ElasticMQ", "ElasticMQMissing", "ServerFailed", "SqsProcess", "fetch"]
