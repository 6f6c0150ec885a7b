"""When a worker is done: not before every end is told, unless nobody is left to tell it."""

from ledgence_worker.crew import Crew
from tests.worker.fakes import FakeClock, FakePool, FakeTaskService, make_shared


class Fixture:
    def __init__(self) -> None:
        self.pool = FakePool(4)
        self.clock = FakeClock()
        self.service = FakeTaskService()
        self.shared = make_shared(self.service, self.clock, wake=self.pool.wake)
        self.crew = Crew(self.shared, self.pool)
        self.shared.slots.occupy(asked=self.shared.slots.reserve(), taken=1)

    def turn(self) -> bool:
        self.pool.wake()
        return self.crew.turn()

    def end_thread(self, name: str) -> None:
        self.crew._guard(name, lambda: None)


def test_drained_worker_waits_for_its_acquirer_and_then_for_the_last_end():
    fixture = Fixture()
    assert fixture.turn()
    fixture.shared.stopping.request("test")
    assert fixture.turn()
    assert fixture.service.is_interrupted
    assert fixture.shared.slots.reserve() == 0
    fixture.end_thread("acquirer")
    assert fixture.turn()
    fixture.shared.slots.exchange(freed=1)
    assert not fixture.turn()


def test_without_a_settler_the_last_end_is_not_waited_for():
    fixture = Fixture()
    fixture.shared.stopping.request("test")
    fixture.end_thread("acquirer")
    assert fixture.turn()
    fixture.end_thread("settler")
    assert not fixture.turn()


def test_interruption_that_fails_stops_nothing_else(caplog):
    fixture = Fixture()

    def interrupt() -> None:
        raise ZeroDivisionError("a bug")

    fixture.service.interrupt = interrupt  # type: ignore[method-assign]
    fixture.shared.stopping.request("test")
    assert fixture.turn()
    assert "waiting request not interrupted" in caplog.text
