"""Hints that nobody of ours sent: whoever may connect to the database may NOTIFY."""

from collections.abc import Iterator

import pytest

from ledgence import hints
from ledgence.listener import Listener
from ledgence.served_queues import ServedQueues
from ledgence.worker_connections import WorkerConnections
from tests.faults.waiting import wait_until
from tests.ledger.actors import USING, execute

pytestmark = pytest.mark.django_db(transaction=True)


class Unforeseen(Exception):
    """What no listener expects from what it calls."""


class Heard:
    """Counts the cancellations, and stumbles when a test says so."""

    def __init__(self) -> None:
        self.count = 0
        self.stumbles = False

    def __call__(self) -> None:
        self.count += 1
        if self.stumbles:
            self.stumbles = False
            raise Unforeseen


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def listener(heard: Heard) -> Iterator[Listener]:
    connections = WorkerConnections(USING)
    made = Listener(connections, concerns=ServedQueues(USING).concern, on_cancel=heard)
    wait_until(lambda: made.is_hearing, "the listener to hear itself")
    yield made
    made.close()
    connections.close()


def notify(payload: str) -> None:
    execute("select pg_notify(%s, %s)", [hints.CHANNEL, payload])


@pytest.mark.parametrize(
    "payload", ["9" * 7_999, "²", "٣", "-1", "", " ", "1.5", "\u2028", "cancel" * 1_000, "x " * 3_000]
)
def test_a_hint_of_nonsense_does_not_end_the_listener(listener: Listener, heard: Heard, payload: str):
    notify(payload)
    notify(hints.CANCEL)
    wait_until(lambda: heard.count == 1, "the next hint", seconds=10)
    assert listener.is_hearing


def test_whatever_a_hint_leads_to_the_listener_hears_again(listener: Listener, heard: Heard):
    heard.stumbles = True
    notify(hints.CANCEL)
    wait_until(lambda: heard.count == 1, "the hint at which it stumbles")

    def heard_again() -> bool:
        notify(hints.CANCEL)
        return heard.count > 1

    wait_until(heard_again, "a later hint", seconds=10)
