"""An ElasticMQ server on a loopback port: in memory, with the limits of SQS, ended by its process id."""

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any, Final

from ledgence_project.elasticmq.jars import jars, java

#: Below the ports that the kernel gives to callers: after a kill nobody else gets the port by chance.
PORTS: Final = range(20_000, 32_000)
#: What SQS clients need to name: it takes any region, and says this one in the names of its queues.
REGION: Final = "elasticmq"
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 10.0
CALL_SECONDS: Final = 10.0
LOG_TAIL_BYTES: Final = 4096
#: The first compiler alone starts in 1.0 s instead of 1.4, needs a fifth less of the processor and passes as many
#: messages; other collectors and a larger heap only take memory.
JVM_OPTIONS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xmx256m")
#: Java cannot end with its parent by itself; what it is started through asks the kernel for it.
_THROUGH: Final = (
    "import os, sys; from ledgence_worker.linux import die_with_parent;"
    "die_with_parent(int(sys.argv[1])); os.execv(sys.argv[2], sys.argv[2:])"
)


class ElasticMQFailed(Exception):
    """The server did not start or did not answer; the text holds the end of its log."""


class ElasticMQ:
    """A server on a port of its own. Its queues and messages are gone when it ends.

    Start it in a thread that lasts as long as the server: the kernel kills it with that thread.
    """

    def __init__(self) -> None:
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of the running server. Raises ElasticMQFailed if there is none."""
        if self._process is None:
            raise ElasticMQFailed(f"The ElasticMQ of port {self.port} is not running.")
        return self._process.pid

    def start(self) -> None:
        """Start it, without queues, and return when it answers. Raises ElasticMQFailed, and ElasticMQMissing."""
        with tempfile.TemporaryFile() as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _THROUGH, str(os.getpid()), *self._command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
                start_new_session=True,  # The terminal's Ctrl-C is for the command, not for its broker.
            )
            give_up = time.monotonic() + START_SECONDS
            while not self._is_healthy():
                if self._process.poll() is not None or time.monotonic() > give_up:
                    self.kill()
                    log.seek(0)
                    tail = log.read()[-LOG_TAIL_BYTES:].decode(errors="replace")
                    raise ElasticMQFailed(f"ElasticMQ did not start on port {self.port}:\n{tail}")
                time.sleep(0.02)

    def kill(self) -> None:
        """End it at once; nothing happens if it does not run. It can be started again, on the same port."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(STOP_SECONDS)

    def freeze(self) -> None:
        """Let it answer nothing until ``thaw``: connections are taken, and stay without a reply."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on after ``freeze``."""
        self._signal(signal.SIGCONT)

    def create_queue(self, name: str, **attributes: str | int) -> str:
        """Make a queue and return its address for clients. Attributes are those of SQS, as VisibilityTimeout=60."""
        texts = {key: str(value) for key, value in attributes.items()}
        return str(self.call("CreateQueue", QueueName=name, Attributes=texts)["QueueUrl"])

    def delete_queue(self, queue_url: str) -> None:
        """Remove a queue with its messages."""
        self.call("DeleteQueue", QueueUrl=queue_url)

    def call(self, action: str, **fields: Any) -> dict[str, Any]:
        """Ask for an action of SQS and return the reply. Raises ElasticMQFailed for any status but 200."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=CALL_SECONDS)
        headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": f"AmazonSQS.{action}"}
        with contextlib.closing(connection):
            connection.request("POST", "/", json.dumps(fields), headers)
            reply = connection.getresponse()
            text = reply.read().decode()
        if reply.status != 200:
            raise ElasticMQFailed(f"ElasticMQ answered {action} with {reply.status}: {text}")
        return json.loads(text) if text else {}

    def _command(self) -> list[str]:
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

    def _is_healthy(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=CALL_SECONDS)
        with contextlib.closing(connection):
            try:
                connection.request("GET", "/health")
                return connection.getresponse().status == 200
            except (OSError, http.client.HTTPException):
                return False

    def _signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)


@contextlib.contextmanager
def elasticmq() -> Iterator[ElasticMQ]:
    """Run a server without queues until the block ends. Raises ElasticMQMissing, and ElasticMQFailed."""
    server = ElasticMQ()
    try:
        server.start()
        yield server
    finally:
        server.kill()


def _free_port() -> int:
    for port in random.sample(PORTS, k=100):  # noqa: S311 - no secret
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise ElasticMQFailed(f"No port from {PORTS.start} to {PORTS.stop - 1} is free for ElasticMQ.")
