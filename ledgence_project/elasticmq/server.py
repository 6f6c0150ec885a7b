"""ElasticMQ: in memory, with the limits of SQS, on the loopback interface."""

from collections.abc import Sequence
from typing import Final

from ledgence_project.elasticmq.jars import jars, java
from ledgence_project.elasticmq.process import SqsProcess

#: The first compiler alone starts in 1.0 s instead of 1.4, needs a fifth less of the processor and passes as many
#: messages; the other collectors and a larger heap only take memory.
JVM_OPTIONS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xmx256m")


class ElasticMQ(SqsProcess):
    """A server without queues. It takes any region, and says its own in the names of its queues.

    Starting it raises ElasticMQMissing when it was not fetched or there is no Java, and ServerFailed.
    """

    region = "elasticmq"

    def command(self) -> Sequence[str]:
        settings = {
            "node-address.host": "127.0.0.1",
            "node-address.port": self.port,
            "rest-sqs.bind-hostname": "127.0.0.1",
            "rest-sqs.bind-port": self.port,
            "rest-sqs.sqs-limits": "strict",
            "messages-storage.enabled": "false",
            "queues-storage.enabled": "false",
        }
        defined = [f"-D{name}={value}" for name, value in settings.items()]
        return [java(), *JVM_OPTIONS, *defined, "-cp", str(jars() / "*"), "org.elasticmq.server.Main"]
