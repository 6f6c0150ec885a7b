"""A broker in a folder, for processes that a test starts: what it took stands in a file, other files are its faults.

It is found by its entry point, as any distribution's adapter; install() makes one in a folder for PYTHONPATH.
"""

import fcntl
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ledgence_worker.delivery.ports import AckQueue, Inspection, Publication, Published, PublishStatus
from ledgence_worker.errors import BrokerRefused, BrokerUnavailable, InvalidInput

METADATA = "Metadata-Version: 2.1\nName: file-broker\nVersion: 1\n"
ENTRY_POINTS = "[ledgence_worker.adapters]\nfolder = tests.faults.file_broker:FolderOptions\n"


def install(site: Path) -> None:
    """Make the adapter known to processes that have the folder on their path."""
    distribution = site / "file_broker-1.dist-info"
    distribution.mkdir(parents=True)
    (distribution / "METADATA").write_text(METADATA)
    (distribution / "entry_points.txt").write_text(ENTRY_POINTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderOptions:
    """The table ``[routes.folder]`` of a configuration."""

    path: str

    def publisher(self) -> "FolderBroker":
        return FolderBroker(Path(self.path))

    def ack_queue(self) -> AckQueue:
        raise InvalidInput("nothing is received from a folder.")


class FolderBroker:
    """The queue that is the file ``taken`` of a folder.

    While there is a file ``down`` in it, nothing is answered; with ``refused``, its text is why the queue cannot be
    used; a publication whose body holds the text of ``poison`` is refused.
    """

    batch_max = 10

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def inspect(self) -> Inspection:
        self._answer()
        if (reason := self._text("refused")) is not None:
            raise BrokerRefused(reason)
        return Inspection(address=str(self.folder))

    def publish(self, batch: Sequence[Publication]) -> Sequence[Published]:
        self._answer()
        poison = self._text("poison")
        taken = [one for one in batch if poison is None or poison not in one.body]
        with (self.folder / "taken").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.writelines(one.body + "\n" for one in taken)
        return [
            Published(publication_id=one.publication_id, status=PublishStatus.CONFIRMED, message_id="taken")
            if one in taken
            else Published(publication_id=one.publication_id, status=PublishStatus.REFUSED, detail="poison")
            for one in batch
        ]

    def close(self) -> None:
        pass

    def taken(self) -> list[str]:
        """Return the tasks that messages name, in the order of their arrival."""
        text = self._text("taken") or ""
        return [json.loads(line)["task"] for line in text.splitlines()]

    def _answer(self) -> None:
        if (self.folder / "down").exists():
            raise BrokerUnavailable(f"The folder {self.folder} does not answer.")

    def _text(self, name: str) -> str | None:
        try:
            return (self.folder / name).read_text()
        except FileNotFoundError:
            return None
