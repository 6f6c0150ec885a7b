"""Local authority: it ends before the lease does, only replies asked for in time move it, and nothing revives it."""

import math

import pytest

from ledgence_worker.inbox import Inbox
from ledgence_worker.lease import LeaseKeeper, margin_seconds
from ledgence_worker.pool import StopReason
from ledgence_worker.protocol import Renewal, RenewStatus
from tests.worker.fakes import FakeClock, make_assignment


class Fixture:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.inbox = Inbox(lambda: None)
        self.keeper = LeaseKeeper(60.0, self.inbox, self.clock)

    def hold(self, **kind):
        [authority] = self.keeper.hold([make_assignment(**kind)], self.clock.now)
        return authority

    def reply(self, authority, status=RenewStatus.RENEWED, *, requested_at=None, **answer):
        task_id, number = authority.key
        renewal = Renewal(task_id=task_id, number=number, status=status, **answer)
        requested_at = self.clock.now if requested_at is None else requested_at
        return self.keeper.apply([authority], [renewal], requested_at)

    def stops(self):
        return [(order.authority, order.reason) for order in self.inbox.take_stops()]


@pytest.fixture
def fixture():
    return Fixture()


@pytest.mark.parametrize(("lease", "margin"), [(60, 5), (30, 5), (12, 2), (3, 0.5)])
def test_margin_is_a_sixth_and_at_most_five_seconds(lease, margin):
    assert margin_seconds(lease) == margin


def test_bound_counts_from_before_the_request_plus_what_the_service_held(fixture):
    sent_at = fixture.clock.now
    fixture.clock.advance(3)
    [authority] = fixture.keeper.hold([make_assignment(remaining=60, timeout=300)], sent_at + 2)
    assert authority.ends_at == sent_at + 2 + 60 - 5
    assert authority.times_out_at == sent_at + 2 + 300
    assert fixture.keeper.earliest_end == authority.ends_at


def test_no_time_out_is_kept_as_none(fixture):
    assert fixture.hold(timeout=None).times_out_at is None


def test_authority_that_is_over_on_arrival_is_marked(fixture):
    assert fixture.hold(remaining=5).is_over
    assert not fixture.hold(remaining=5.1).is_over


def test_attempt_that_is_held_already_is_left_out(fixture, caplog):
    assignment = make_assignment()
    assert len(fixture.keeper.hold([assignment], fixture.clock.now)) == 1
    assert fixture.keeper.hold([assignment], fixture.clock.now) == []
    assert "attempt assigned twice" in caplog.text


def test_bound_that_passes_is_told_once(fixture):
    authority = fixture.hold(remaining=60)
    later = fixture.hold(remaining=100)
    assert fixture.keeper.overdue(authority.ends_at - 0.001) == []
    assert fixture.keeper.overdue(authority.ends_at) == [authority]
    assert authority.is_over
    assert fixture.keeper.overdue(authority.ends_at) == []
    assert fixture.keeper.earliest_end == later.ends_at


def test_nothing_held_means_nothing_to_look_at(fixture):
    authority = fixture.hold()
    fixture.keeper.forget([authority])
    assert fixture.keeper.overdue(fixture.clock.now) == []
    assert fixture.keeper.earliest_end == math.inf


def test_renewal_moves_the_bound_from_before_its_request(fixture):
    authority = fixture.hold(remaining=60)
    fixture.clock.advance(15)
    sent_at = fixture.clock.now
    fixture.clock.advance(4)
    assert fixture.reply(authority, requested_at=sent_at, remaining_seconds=60) == []
    assert authority.ends_at == sent_at + 60 - 5
    assert fixture.stops() == []


def test_reply_that_comes_after_the_bound_revives_nothing(fixture):
    authority = fixture.hold(remaining=60)
    sent_at = fixture.clock.now + 54
    fixture.clock.advance(55)
    fixture.reply(authority, requested_at=sent_at, remaining_seconds=60)
    assert authority.is_over
    assert fixture.stops() == [(authority, StopReason.AUTHORITY_LOST)]
    assert fixture.keeper.renewable() == []


def test_reply_about_an_authority_that_was_found_over_changes_nothing(fixture):
    authority = fixture.hold(remaining=60)
    ends_at = authority.ends_at
    fixture.keeper.overdue(ends_at)
    fixture.reply(authority, remaining_seconds=60)
    assert authority.is_over
    assert authority.ends_at == ends_at
    assert fixture.stops() == []


def test_reply_about_a_settled_attempt_changes_nothing(fixture):
    authority = fixture.hold()
    fixture.keeper.forget([authority])
    assert fixture.reply(authority, RenewStatus.OWNERSHIP_LOST) == []
    assert fixture.stops() == []


def test_cancel_stops_once_and_shortens_the_bound(fixture):
    authority = fixture.hold(remaining=60)
    now = fixture.clock.now
    fixture.reply(authority, remaining_seconds=30, cancel_requested=True)
    assert authority.ends_at == now + 30 - 5
    assert fixture.keeper.earliest_end == authority.ends_at
    assert fixture.stops() == [(authority, StopReason.CANCEL)]
    fixture.reply(authority, remaining_seconds=30, cancel_requested=True)
    assert fixture.stops() == []


def test_lost_ownership_stops(fixture):
    authority = fixture.hold()
    fixture.reply(authority, RenewStatus.OWNERSHIP_LOST)
    assert authority.is_over
    assert fixture.stops() == [(authority, StopReason.AUTHORITY_LOST)]


def test_busy_and_missing_answers_are_undecided(fixture):
    busy, missing = fixture.hold(), fixture.hold()
    renewal = Renewal(task_id=busy.key[0], number=1, status=RenewStatus.BUSY)
    before = (busy.ends_at, missing.ends_at)
    assert fixture.keeper.apply([busy, missing], [renewal], fixture.clock.now) == [busy, missing]
    assert (busy.ends_at, missing.ends_at) == before
    assert fixture.stops() == []
