"""A broker in a folder, for processes that a test starts: what it took stands in a file, other files are its faults.

It is found by its entry point, as any distribution's adapter; install() makes one in a folder for PYTHONPATH.
"""

import fcntl
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ledgence_worker.delivery.ports import (
    Inspection,
    Message,
    Publication,
    Published,
    PublishStatus,
    ReceiptAnswer,
    ReceiptStatus,
)
from ledgence_worker.errors import BrokerRefused, BrokerUnavailable

VISIBILITY_SECONDS: Final = 3.0
POLL_SECONDS: Final = 0.02
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

    def ack_queue(self) -> "FolderBroker":
        return FolderBroker(Path(self.path))


class FolderBroker:
    """The queue that is the file ``taken`` of a folder; what is received of it stands in ``deliveries``.

    While there is a file ``down`` in it, nothing is answered; with ``refused``, its text is why the queue cannot be
    used; a publication whose body holds the text of ``poison`` is refused; with ``deaf`` no message is removed.
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

    def receive(self, count: int, wait_seconds: float) -> Sequence[Message]:
        until = time.monotonic() + wait_seconds
        while True:
            self._answer()
            with self._deliveries() as deliveries:
                found = self._deliver(count, deliveries)
            if found or time.monotonic() >= until:
                return found
            time.sleep(POLL_SECONDS)

    def _deliver(self, count: int, deliveries: dict[str, Any]) -> list[Message]:
        found: list[Message] = []
        now = time.time()
        for number, body in enumerate((self._text("taken") or "").splitlines()):
            delivery = deliveries.setdefault(str(number), {"times": 0, "visible_at": 0.0, "is_removed": False})
            if delivery["is_removed"] or delivery["visible_at"] > now or len(found) == count:
                continue
            delivery |= {"times": delivery["times"] + 1, "visible_at": now + VISIBILITY_SECONDS}
            receipt = f"{number}/{delivery['times']}"
            found.append(Message(message_id=f"message-{number}", receipt=receipt, body=body))
        return found

    def acknowledge(self, receipts: Sequence[str]) -> Sequence[ReceiptAnswer]:
        return self._end(receipts, is_removed=True)

    def give_back(self, receipts: Sequence[str]) -> Sequence[ReceiptAnswer]:
        return self._end(receipts, is_removed=False)

    def _end(self, receipts: Sequence[str], *, is_removed: bool) -> list[ReceiptAnswer]:
        if (self.folder / "down").exists() or (self.folder / "deaf").exists():
            return [ReceiptAnswer(receipt=receipt, status=ReceiptStatus.FAILED) for receipt in receipts]
        with self._deliveries() as deliveries:
            for receipt in receipts:
                deliveries[receipt.partition("/")[0]] |= {"is_removed": is_removed, "visible_at": 0.0}
        return [ReceiptAnswer(receipt=receipt, status=ReceiptStatus.DONE) for receipt in receipts]

    @contextmanager
    def _deliveries(self) -> Iterator[dict[str, Any]]:
        """Hold what is known of deliveries, by the messages' numbers, and write it down at the end."""
        with (self.folder / "deliveries").open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            deliveries = json.loads(file.read() or "{}")
            yield deliveries
            file.seek(0)
            file.truncate()
            file.write(json.dumps(deliveries))

    def close(self) -> None:
        pass

    def left(self) -> int:
        """Return how many messages were not removed."""
        with self._deliveries() as deliveries:
            removed = len([delivery for delivery in deliveries.values() if delivery["is_removed"]])
        return len((self._text("taken") or "").splitlines()) - removed

    def times(self) -> list[int]:
        """Return how often each message was received, in the order of their arrival."""
        with self._deliveries() as deliveries:
            return [delivery["times"] for delivery in deliveries.values()]

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
