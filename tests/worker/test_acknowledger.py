"""The acknowledger: every message once, in batches, and no failure matters to anybody but whoever reads the log."""

import threading

import pytest

from ledgence.testing.delivery import MemoryBroker
from ledgence_worker import acknowledger as module
from ledgence_worker.acknowledger import Acknowledger
from ledgence_worker.clock import SystemClock
from ledgence_worker.delivery.ports import Message
from tests.worker.fakes import wait_for
from tests.worker.routed import SpyQueue, make_queue


class Fixture:
    def __init__(self, *, linger_seconds: float = 0.001) -> None:
        self.broker = MemoryBroker(batch_max=10)
        self.spy = SpyQueue(self.broker)
        self.acknowledger = Acknowledger(make_queue(self.spy), SystemClock(), linger_seconds=linger_seconds)
        self.thread = threading.Thread(target=self.acknowledger.run, daemon=True)

    def receive(self, count: int) -> list[Message]:
        self.broker.put(*["x"] * count)
        taken: list[Message] = []
        while len(taken) < count:
            taken += self.spy.inner.receive(10, 0)
        return taken

    def end(self) -> None:
        self.acknowledger.close()
        self.thread.start() if self.thread.ident is None else None
        self.thread.join(10)
        assert not self.thread.is_alive()


def test_receipts_go_in_batches_and_all_go_before_the_end():
    fixture = Fixture()
    fixture.acknowledger.put(fixture.receive(25))
    fixture.end()
    assert fixture.spy.journal == ["acknowledge"] * 3
    assert (fixture.broker.in_flight, fixture.broker.waiting) == (0, 0)
    assert fixture.acknowledger.failed_count == 0


def test_the_first_receipt_waits_a_little_for_others():
    fixture = Fixture(linger_seconds=3600)
    fixture.thread.start()
    messages = fixture.receive(10)
    for message in messages:
        fixture.acknowledger.put([message])
    wait_for(lambda: fixture.spy.acknowledged, "a full batch, without its linger")
    assert fixture.spy.acknowledged == [message.receipt for message in messages]
    fixture.acknowledger.put(fixture.receive(1))
    # A stop ends the linger.
    fixture.end()
    assert len(fixture.spy.acknowledged) == 11


def test_a_lone_receipt_goes_after_its_linger():
    fixture = Fixture(linger_seconds=0.001)
    fixture.thread.start()
    fixture.acknowledger.put(fixture.receive(1))
    wait_for(lambda: fixture.spy.acknowledged, "a lone receipt")
    fixture.end()


def test_failures_are_counted_and_told_ever_more_rarely(caplog):
    fixture = Fixture()
    fixture.broker.refuses_receipts = True
    for _ in range(9):
        fixture.acknowledger.step([message.receipt for message in fixture.receive(2)])
    told = [record.getMessage() for record in caplog.records]
    assert [line.partition("in_all=")[2].split()[0] for line in told] == ["2", "4", "8", "16"]
    assert fixture.acknowledger.failed_count == 18
    fixture.broker.refuses_receipts = False
    fixture.acknowledger.step([fixture.receive(1)[0].receipt])
    fixture.broker.refuses_receipts = True
    fixture.acknowledger.step([fixture.receive(1)[0].receipt])
    assert len(caplog.records) == 5


def test_a_receipt_that_is_over_is_no_failure(caplog):
    fixture = Fixture()
    [message] = fixture.receive(1)
    fixture.broker.end_visibility()
    fixture.spy.inner.receive(1, 0)
    fixture.acknowledger.step([message.receipt])
    assert fixture.acknowledger.failed_count == 0
    assert caplog.records == []


@pytest.mark.parametrize("broken", [ZeroDivisionError("a bug"), None], ids=["raises", "answers nothing"])
def test_an_adapter_that_breaks_its_promises_ends_nothing(broken, caplog):
    fixture = Fixture()

    def acknowledge(receipts):
        if broken:
            raise broken
        return []

    fixture.spy.acknowledge = acknowledge  # type: ignore[method-assign]
    fixture.acknowledger.put(fixture.receive(3))
    fixture.end()
    assert fixture.acknowledger.failed_count == 3
    assert "messages not acknowledged" in caplog.text


def test_what_a_dead_broker_does_not_take_is_kept_within_bounds(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "KEPT_MAX", 5)
    fixture = Fixture()
    messages = fixture.receive(8)
    fixture.acknowledger.put(messages)
    fixture.end()
    assert fixture.spy.acknowledged == [message.receipt for message in messages[3:]]
