"""The slot counts: never more than N, whatever the order of events."""

import random
import threading
from typing import Any

import pytest

from ledgence_worker.slots import SlotCounts, SlotsBroken
from tests.worker.fakes import wait_for


def total(slots: SlotCounts) -> int:
    return slots.free + slots.asked + slots.occupied + slots.quarantined


def test_slots_go_round():
    slots = SlotCounts(4)
    assert slots.reserve() == 4
    slots.occupy(asked=4, taken=3)
    assert (slots.free, slots.asked, slots.occupied) == (1, 0, 3)
    slots.exchange(freed=2, stuck=1, taken=1)
    assert (slots.free, slots.occupied, slots.quarantined) == (2, 1, 1)
    slots.recover(1)
    assert (slots.free, slots.occupied, slots.quarantined) == (3, 1, 0)


@pytest.mark.parametrize(
    "move",
    [
        lambda slots: slots.occupy(asked=3, taken=3),
        lambda slots: slots.occupy(asked=2, taken=3),
        lambda slots: slots.exchange(freed=1, taken=2),
        lambda slots: slots.exchange(freed=3),
        lambda slots: slots.recover(1),
    ],
)
def test_slots_that_do_not_exist_are_refused_and_nothing_changes(move):
    slots = SlotCounts(4)
    slots.reserve()
    slots.occupy(asked=4, taken=4)
    slots.exchange(freed=2)
    slots.reserve()
    before = (slots.free, slots.asked, slots.occupied, slots.quarantined)
    assert before == (0, 2, 2, 0)
    with pytest.raises(SlotsBroken):
        move(slots)
    assert (slots.free, slots.asked, slots.occupied, slots.quarantined) == before


def test_reserve_waits_for_a_free_slot():
    slots, reserved = SlotCounts(2), []
    assert slots.reserve() == 2
    slots.occupy(asked=2, taken=2)
    thread = threading.Thread(target=lambda: reserved.append(slots.reserve()), daemon=True)
    thread.start()
    slots.exchange(freed=1)
    thread.join(10)
    assert reserved == [1]


def test_close_ends_the_wait():
    slots, reserved = SlotCounts(1), []
    slots.reserve()
    thread = threading.Thread(target=lambda: reserved.append(slots.reserve()), daemon=True)
    thread.start()
    slots.close()
    thread.join(10)
    assert reserved == [0]


def test_close_wins_over_free_slots():
    slots = SlotCounts(1)
    slots.close()
    assert slots.reserve() == 0


def test_any_lawful_order_keeps_the_sum():
    dice = random.Random(7)
    for _ in range(200):
        slots = SlotCounts(8)
        for _ in range(50):
            if slots.free and dice.random() < 0.5:
                asked = slots.reserve()
                slots.occupy(asked=asked, taken=dice.randint(0, asked))
            if slots.occupied:
                freed = dice.randint(0, slots.occupied)
                stuck = dice.randint(0, slots.occupied - freed)
                slots.exchange(freed=freed, stuck=stuck, taken=dice.randint(0, freed))
            if slots.quarantined and dice.random() < 0.3:
                slots.recover(1)
            assert total(slots) == 8
            assert min(slots.free, slots.asked, slots.occupied, slots.quarantined) >= 0


def test_threads_never_get_more_than_there_are():
    slots, rounds = SlotCounts(3), []

    def take_and_give() -> None:
        for _ in range(300):
            asked = slots.reserve()
            slots.occupy(asked=asked, taken=asked)
            slots.exchange(freed=asked)
        rounds.append(1)

    threads = [threading.Thread(target=take_and_give, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_for(lambda: len(rounds) == 4, "the end of all threads")
    assert (slots.free, total(slots)) == (3, 3)


def test_no_more_is_reserved_than_asked_for():
    slots = SlotCounts(4)
    assert slots.reserve(3) == 3
    assert slots.reserve(3) == 1


class Waiter:
    """A thread that reserves once."""

    def __init__(self, slots: SlotCounts, most: int | None = None, **options: Any) -> None:
        self.reserved: list[int] = []
        before = len(slots._line)
        run = lambda: self.reserved.append(slots.reserve(most, **options))  # noqa: E731
        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        wait_for(lambda: len(slots._line) > before, "a place in the line")

    def result(self) -> int:
        self.thread.join(10)
        [reserved] = self.reserved
        return reserved


def test_slots_go_to_those_who_wait_in_their_order():
    slots = SlotCounts(2)
    slots.occupy(asked=slots.reserve(), taken=2)
    first, second, third = Waiter(slots, 1), Waiter(slots, is_hungry=True), Waiter(slots)
    wanted = [slots.is_wanted]
    slots.exchange(freed=1)
    assert first.result() == 1
    assert second.reserved == third.reserved == []
    slots.exchange(freed=1)
    assert second.result() == 1
    assert [*wanted, slots.is_wanted] == [True, False]
    slots.occupy(asked=2, taken=0)
    assert third.result() == 2


def test_what_the_first_in_line_leaves_goes_to_the_next():
    slots = SlotCounts(3)
    slots.occupy(asked=slots.reserve(), taken=3)
    waiters = [Waiter(slots, 1), Waiter(slots, 1), Waiter(slots, 1)]
    slots.exchange(freed=3)
    assert [waiter.result() for waiter in waiters] == [1, 1, 1]


def test_close_ends_every_wait():
    slots = SlotCounts(1)
    slots.reserve()
    waiters = [Waiter(slots, is_hungry=True) for _ in range(3)]
    slots.close()
    assert [waiter.result() for waiter in waiters] == [0, 0, 0]
    assert not slots.is_wanted


def test_the_first_free_slots_wait_a_little_for_those_that_are_occupied():
    slots = SlotCounts(3)
    slots.occupy(asked=slots.reserve(), taken=3)
    lingering = Waiter(slots, 2, linger_seconds=3600)
    slots.exchange(freed=1)
    assert lingering.reserved == []
    slots.exchange(freed=1)
    assert lingering.result() == 2


@pytest.mark.parametrize(
    ("occupied", "most", "linger"), [(1, None, 0.001), (0, None, 3600), (1, 2, 3600)], ids=["over", "idle", "enough"]
)
def test_nothing_is_waited_for_that_does_not_come(occupied, most, linger):
    slots = SlotCounts(3)
    slots.occupy(asked=slots.reserve(), taken=occupied)
    assert slots.reserve(most, linger_seconds=linger) == (most or 3 - occupied)


def test_close_ends_a_linger():
    slots = SlotCounts(2)
    slots.occupy(asked=slots.reserve(), taken=1)
    lingering = Waiter(slots, linger_seconds=3600)
    slots.close()
    assert lingering.result() == 0
