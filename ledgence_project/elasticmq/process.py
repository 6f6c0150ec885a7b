"""A server process that speaks SQS on a loopback port, ended by its process id."""

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
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import ledgence_worker

#: Below the ports that the kernel gives to callers: after a kill nobody else gets the port by chance.
PORTS: Final = range(20_000, 32_000)
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 10.0
CALL_SECONDS: Final = 10.0
LOG_TAIL_BYTES: Final = 4096
#: Some servers find in the signature what is asked of whom; none checks it.
_SIGNATURE: Final = "AWS4-HMAC-SHA256 Credential=local/20250101/{}/sqs/aws4_request, SignedHeaders=host, Signature=0"
#: What is started through this asks the kernel to end it with its parent, which no server does by itself.
_THROUGH: Final = (
    "import os, sys; sys.path.insert(0, sys.argv[2]); from ledgence_worker.linux import die_with_parent;"
    "die_with_parent(int(sys.argv[1])); os.execv(sys.argv[3], sys.argv[3:])"
)
_WORKER_PATH: Final = Path(ledgence_worker.__file__).parents[1]


class ServerFailed(Exception):
    """The server did not start or did not answer; the text holds the end of its log, or its answer."""


class SqsProcess(ABC):
    """A server on a port of its own. Its queues and messages are gone when it ends.

    A subclass gives the command. Start it in a thread that lasts as long as the server: the kernel kills it with
    that thread. As a context manager it runs until the block ends.
    """

    #: What clients name as region.
    region = "us-east-1"

    def __init__(self) -> None:
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> Sequence[str]:
        """Return the command, whose first word is a path."""

    def environment(self) -> Mapping[str, str]:
        """Return the variables that are set for the command, beside those of this process."""
        return {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """The process id of the running server. Raises ServerFailed if there is none."""
        if self._process is None:
            raise ServerFailed(f"The server of port {self.port} is not running.")
        return self._process.pid

    def start(self) -> None:
        """Start it, without queues, and return when it answers. Raises ServerFailed."""
        with tempfile.TemporaryFile() as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _THROUGH, str(os.getpid()), str(_WORKER_PATH), *self.command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | self.environment(),
                start_new_session=True,  # The terminal's Ctrl-C is for the command, not for its broker.
            )
            give_up = time.monotonic() + START_SECONDS
            while not self._is_answering():
                if self._process.poll() is not None or time.monotonic() > give_up:
                    self.kill()
                    log.seek(0)
                    tail = log.read()[-LOG_TAIL_BYTES:].decode(errors="replace")
                    raise ServerFailed(f"{type(self).__name__} did not start on port {self.port}:\n{tail}")
                time.sleep(0.02)

    def kill(self) -> None:
        """End it at once; nothing happens if it does not run. It can be started again, on the same port."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(STOP_SECONDS)

    def freeze(self) -> None:
        """Let it answer nothing until ``thaw``: connections are taken, and stay without a reply."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on after ``freeze``."""
        os.kill(self.pid, signal.SIGCONT)

    def create_queue(self, name: str, **attributes: str | int) -> str:
        """Make a queue and return its address for clients. Attributes are those of SQS, as VisibilityTimeout=60."""
        texts = {key: str(value) for key, value in attributes.items()}
        return str(self.call("CreateQueue", QueueName=name, Attributes=texts)["QueueUrl"])

    def delete_queue(self, queue_url: str) -> None:
        """Remove a queue with its messages."""
        self.call("DeleteQueue", QueueUrl=queue_url)

    def call(self, action: str, **fields: Any) -> dict[str, Any]:
        """Ask for an action of SQS and return the reply. Raises ServerFailed for any status but 200, and OSError."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=CALL_SECONDS)
        headers = {
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": f"AmazonSQS.{action}",
            "Authorization": _SIGNATURE.format(self.region),
        }
        with contextlib.closing(connection):
            connection.request("POST", "/", json.dumps(fields), headers)
            reply = connection.getresponse()
            text = reply.read().decode()
        if reply.status != 200:
            raise ServerFailed(f"{type(self).__name__} answered {action} with {reply.status}: {text}")
        return json.loads(text) if text else {}

    def _is_answering(self) -> bool:
        try:
            self.call("ListQueues")
        except (OSError, http.client.HTTPException, ServerFailed):
            return False
        return True


def _free_port() -> int:
    for port in random.SystemRandom().sample(PORTS, k=100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise ServerFailed(f"No port from {PORTS.start} to {PORTS.stop - 1} is free.")
