"""Emulators of SQS that do what ElasticMQ cannot, and other things differently: each from its own environment."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ledgence_project.elasticmq import SqsProcess
from ledgence_project.embedded.environment import CHECKOUT

ENVIRONMENT: Final = CHECKOUT / ".venv-brokers"


def program(name: str) -> Path:
    """Return the path of an emulator's program."""
    path = ENVIRONMENT / "bin" / name
    assert path.exists(), f"{path} is missing: run 'make brokers'."
    return path


class Ministack(SqsProcess):
    """Refuses old receipts and single entries of a batch, and looks at regions."""

    def command(self) -> Sequence[str]:
        return [str(program("ministack"))]

    def environment(self) -> Mapping[str, str]:
        port = str(self.port)
        return {"GATEWAY_PORT": port, "BIND_HOST": "127.0.0.1", "SERVICES": "sqs", "LOG_LEVEL": "WARNING"}


class Moto(SqsProcess):
    """Takes old receipts, refuses whole batches, and races with itself."""

    def command(self) -> Sequence[str]:
        return [str(program("moto_server")), "-H", "127.0.0.1", "-p", str(self.port)]
