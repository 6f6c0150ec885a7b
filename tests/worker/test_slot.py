"""One slot's wires, without a process: the test speaks for it."""

import os
import socket
import time
from collections.abc import Iterator

import pytest

from ledgence_worker import messages
from ledgence_worker.errors import ProtocolError
from ledgence_worker.frames import Decoder, encode
from ledgence_worker.messages import EndKind
from ledgence_worker.protocol import Outcome
from ledgence_worker.slot import Slot
from tests.worker.fakes import make_assignment

type Wires = tuple[Slot, socket.socket]


@pytest.fixture
def wires() -> Iterator[Wires]:
    ours, theirs = socket.socketpair()
    reading, writing = os.pipe()
    slot = Slot(1, ours, reading)
    yield slot, theirs
    slot.close()
    theirs.close()
    os.close(writing)


def begin(slot: Slot) -> bytes:
    """Let the slot take an attempt, and return the frame that tells its success."""
    slot.assignment = make_assignment()
    [(header, _)] = Decoder().feed(slot.begin(slot.assignment, time.monotonic()))
    return encode(messages.end(header["invoke"], EndKind.SUCCEEDED, is_clean=True, error=None), b"1")


def outcome(slot: Slot) -> Outcome:
    assert slot.assignment is not None
    return slot.ended(slot.assignment, confirmed=True).outcome


def test_an_end_sent_just_before_the_process_died_counts(wires: Wires) -> None:
    slot, process = wires
    process.sendall(begin(slot))
    slot.read_last_words()
    assert outcome(slot) is Outcome.SUCCEEDED


def test_an_end_after_nonsense_does_not(wires: Wires) -> None:
    slot, process = wires
    success = begin(slot)
    process.sendall(b"This is no frame.")
    with pytest.raises(ProtocolError) as raised:
        slot.receive()
    slot.blame(raised.value)
    process.sendall(success)
    slot.read_last_words()
    assert outcome(slot) is Outcome.CRASHED


def test_nonsense_found_among_the_last_words_is_the_reason(wires: Wires) -> None:
    slot, process = wires
    begin(slot)
    process.sendall(b"This is no frame.")
    slot.read_last_words()
    assert outcome(slot) is Outcome.CRASHED
    assert slot.fault is not None and slot.fault.classes == ("ledgence_worker.errors.ProtocolError",)
