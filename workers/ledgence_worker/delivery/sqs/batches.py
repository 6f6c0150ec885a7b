"""Batch calls: which part of a reply is whose. A broker may fail some entries of a batch and do the others."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ledgence_worker.delivery.sqs.faults import tidy


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What a reply says of one entry. ``record`` is Any: the broker's own."""

    is_done: bool
    record: Mapping[str, Any]

    @property
    def code(self) -> str:
        """The error of an entry that failed."""
        return str(self.record.get("Code", ""))

    @property
    def detail(self) -> str:
        """The error with its explanation, for people."""
        return tidy(f"{self.code}: {self.record.get('Message', '')}")


def entry_id(index: int) -> str:
    """Return the id under which an entry is sent."""
    return str(index)


def match_entries(reply: Mapping[str, Any], size: int) -> list[Entry | None]:
    """Return what a reply says of each entry, in order, None where it says nothing.

    A reply that speaks of other entries, or twice of one, is no reply to this batch, and says nothing of any.
    """
    found: dict[str, Entry] = {}
    ids = [entry_id(index) for index in range(size)]
    for name, is_done in (("Successful", True), ("Failed", False)):
        for record in reply.get(name) or ():
            told = record.get("Id")
            if told not in ids or told in found:
                return [None] * size
            found[told] = Entry(is_done=is_done, record=record)
    return [found.get(name) for name in ids]
