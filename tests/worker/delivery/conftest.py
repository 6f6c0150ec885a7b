"""An adapter that another distribution offers, as pip would install it."""

from collections.abc import Callable
from pathlib import Path

import pytest

ADAPTER = """
from dataclasses import dataclass, field
from ledgence_worker.errors import InvalidInput

@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    address: str
    retries: int = 3
    patience_seconds: float = field(default=1.0, compare=False)
    secure: bool = True
    hosts: tuple[str, ...] = ()

    def __post_init__(self):
        if self.retries < 0:
            raise InvalidInput(f"retries {self.retries} must not be negative.")
        if self.address == "nowhere":
            raise InvalidInput("There is nothing.")

    def publisher(self):
        return ("publisher", self.address)

    def ack_queue(self):
        return ("ack queue", self.address)

class Undecorated:
    pass
"""
ENTRY_POINTS = """
[ledgence_worker.adapters]
fake = ledgence_test_broker:Options
undecorated = ledgence_test_broker:Undecorated
missing = ledgence_test_broker:Missing
absent = ledgence_test_absent:Options
"""


@pytest.fixture
def installed_adapters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = tmp_path / "packages"
    information = packages / "ledgence_test_broker-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: ledgence-test-broker\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(ENTRY_POINTS)
    (packages / "ledgence_test_broker.py").write_text(ADAPTER)
    monkeypatch.syspath_prepend(str(packages))


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], str]:
    """Return what writes a file of the test's own and returns its path."""

    def write(name: str, text: str) -> str:
        path = tmp_path / name
        path.write_bytes(text.encode())
        return str(path)

    return write
