"""Shares of the slots: everything for a source that is alone, and for several no more than is fair."""

import pytest

from ledgence_worker.sharing import SHARED_MOST, SHORT_WAIT_SECONDS, Share
from ledgence_worker.slots import SlotCounts


def test_a_source_that_is_alone_reserves_everything_and_waits_as_long_as_it_may():
    slots = SlotCounts(100)
    share = Share(slots, 1)
    assert share.reserve() == 100
    assert share.wait_seconds(20) == 20
    slots.occupy(asked=100, taken=0)
    share.note(asked=100, came=0)
    assert share.reserve() == 100


def test_one_that_is_alone_still_asks_for_no_more_than_one_call_takes():
    share = Share(SlotCounts(100), 1, most=10)
    assert share.reserve() == 10


def test_of_several_each_waits_with_one_slot():
    slots = SlotCounts(16)
    shares = [Share(slots, 3) for _ in range(3)]
    assert [share.reserve() for share in shares] == [1, 1, 1]
    assert [share.wait_seconds(20) for share in shares] == [20, 20, 20]
    assert slots.free == 13


@pytest.mark.parametrize(("most", "reserved"), [(None, SHARED_MOST), (10, 10), (100, SHARED_MOST)])
def test_a_source_whose_request_was_filled_asks_for_what_is_free(most, reserved):
    slots = SlotCounts(200)
    share = Share(slots, 2, most=most)
    slots.occupy(asked=share.reserve(), taken=1)
    share.note(asked=1, came=1)
    assert share.reserve() == reserved
    # It holds what the other may want.
    assert share.wait_seconds(20) == SHORT_WAIT_SECONDS
    share.note(asked=reserved, came=reserved - 1)
    assert share.reserve() == 1
    assert share.wait_seconds(20) == 20


def test_with_fewer_slots_than_sources_waits_are_short():
    slots = SlotCounts(1)
    one = Share(slots, 2)
    assert one.reserve() == 1
    assert one.wait_seconds(20) == SHORT_WAIT_SECONDS
    assert one.wait_seconds(0.5) == 0.5


def test_only_who_has_work_at_hand_lingers(monkeypatch: pytest.MonkeyPatch):
    slots = SlotCounts(4)
    lingers: list[float] = []
    monkeypatch.setattr(slots, "_linger", lambda most, seconds: lingers.append(seconds))
    alone, one_of_two = (Share(slots, sources, linger_seconds=0.5) for sources in (1, 2))
    slots.occupy(asked=alone.reserve(), taken=0)
    assert lingers == [0.5]
    slots.occupy(asked=one_of_two.reserve(), taken=0)
    assert lingers == [0.5]
    one_of_two.note(asked=1, came=1)
    one_of_two.reserve()
    assert lingers == [0.5, 0.5]


def test_nobody_waits_while_another_has_work_and_no_slot():
    slots = SlotCounts(1)
    idle = Share(slots, 2)
    idle.reserve()
    slots._hungry = 1
    assert idle.wait_seconds(20) == 0
