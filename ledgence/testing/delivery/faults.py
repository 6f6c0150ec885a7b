"""What can go wrong in a broker in memory, and how often."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum


class Call(StrEnum):
    """What a publisher or an acknowledging queue asks of the broker."""

    PUBLISH = "publish"
    RECEIVE = "receive"
    ACKNOWLEDGE = "acknowledge"
    GIVE_BACK = "give_back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How often what goes wrong, each from 0 (never) to 1 (always)."""

    # A message is there twice.
    duplicated: float = 0.0
    # A message takes any place in the queue.
    reordered: float = 0.0
    # A message that the broker took is gone.
    lost: float = 0.0
    # An entry is not taken, and answered as failed.
    failed: float = 0.0
    # An entry is taken, and answered as uncertain.
    uncertain: float = 0.0
    # A receipt is answered as failed, and every second time it was carried out all the same.
    receipt_failed: float = 0.0


@dataclass(slots=True, kw_only=True)
class Counts:
    """What happened so far: calls by their kind, also those that failed, and entries."""

    calls: Counter[Call] = field(default_factory=Counter)
    sent: int = 0
    confirmed: int = 0
    received: int = 0
    acknowledged: int = 0
    given_back: int = 0
