"""Worker sessions: one boot of one process, replayed while open, never revived."""

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import transaction

from ledgence.models import Program, WorkerSession
from ledgence.operations.sessions import close_session, extend_session, open_session
from ledgence_worker.errors import Busy, Conflict, InvalidInput, NotFound, SessionExpired
from ledgence_worker.protocol import CatalogueEntry, SettleStatus
from tests.ledger.actors import CATALOGUE, PROGRAM, USING, VERSION, Worker, submit_task
from tests.ledger.frozen import MICROSECOND, FrozenClock
from tests.ledger.rivals import Rival


def entry(name=PROGRAM, version=VERSION, entry_point="tests.programs:work"):
    return CatalogueEntry(name=name, version=version, entry_point=entry_point)


def test_a_session_tells_the_timings_that_its_process_must_keep(clock: FrozenClock, settings):
    settings.LEDGENCE = {"LEASE_SECONDS": 10, "SESSION_SECONDS": 100}
    worker = Worker()
    session = open_session(worker.opening, using=USING)
    assert (session.lease_seconds, session.cleanup_seconds, session.remaining_seconds) == (10, 5, 100)
    row = WorkerSession.objects.get()
    assert (row.pk, row.host, row.pid, row.concurrency) == (worker.session_id, "localhost", 1, 8)
    assert row.programs == list(Program.objects.values_list("pk", flat=True))


def test_a_repeat_returns_the_same_session_with_less_time(clock: FrozenClock, worker: Worker):
    clock.advance(seconds=100)
    assert open_session(worker.opening, using=USING).remaining_seconds == 86_300
    assert WorkerSession.objects.count() == 1


def test_an_extension_counts_from_now(clock: FrozenClock, worker: Worker):
    clock.advance(seconds=86_400 - 1)
    assert extend_session(worker.session_id, using=USING).remaining_seconds == 86_400
    assert WorkerSession.objects.get().expires_at == clock.now + timedelta(days=1)


def kind_of(worker: Worker) -> str:
    """Return the one set of sessions that a worker's is in."""
    [kind] = [
        kind
        for kind in ("live", "silent", "ended")
        if getattr(WorkerSession.objects, kind)().filter(pk=worker.session_id).exists()
    ]
    return kind


def test_a_session_that_is_not_extended_for_half_a_lease_is_silent(clock: FrozenClock, worker: Worker):
    clock.advance(seconds=30 - 1)
    assert kind_of(worker) == "live"
    clock.advance(seconds=1)
    assert kind_of(worker) == "silent"
    extend_session(worker.session_id, using=USING)
    assert kind_of(worker) == "live"
    WorkerSession.objects.update(extended_at=None)
    assert kind_of(worker) == "live"
    close_session(worker.session_id, using=USING)
    assert kind_of(worker) == "ended"


def test_a_session_that_is_over_is_ended(clock: FrozenClock, worker: Worker):
    clock.set(WorkerSession.objects.get().expires_at - MICROSECOND)
    assert kind_of(worker) == "silent"
    clock.advance(microseconds=1)
    assert kind_of(worker) == "ended"


def test_a_session_that_is_over_is_never_revived(clock: FrozenClock, worker: Worker):
    expires_at = WorkerSession.objects.get().expires_at
    clock.set(expires_at - MICROSECOND)
    open_session(worker.opening, using=USING)
    clock.set(expires_at)
    for revive in (
        lambda: open_session(worker.opening, using=USING),
        lambda: extend_session(worker.session_id, using=USING),
    ):
        with pytest.raises(SessionExpired, match=str(worker.session_id)):
            revive()
    assert WorkerSession.objects.get().expires_at == expires_at


def test_a_closed_session_is_never_revived(clock: FrozenClock, worker: Worker):
    close_session(worker.session_id, using=USING)
    closed_at = clock.now
    for revive in (
        lambda: open_session(worker.opening, using=USING),
        lambda: extend_session(worker.session_id, using=USING),
    ):
        with pytest.raises(SessionExpired):
            revive()
    clock.advance(seconds=1)
    close_session(worker.session_id, using=USING)
    assert WorkerSession.objects.get().closed_at == closed_at


def test_leases_of_a_closed_session_end_by_their_owner(worker: Worker):
    submit_task()
    assignment = worker.acquire_one()
    close_session(worker.session_id, using=USING)
    with pytest.raises(SessionExpired):
        worker.acquire(1)
    assert worker.renew(assignment).status == "renewed"
    assert worker.settle(assignment).status == SettleStatus.ACCEPTED


def test_an_unknown_session_is_not_found(db):
    unknown = uuid4()
    with pytest.raises(NotFound, match=str(unknown)):
        extend_session(unknown, using=USING)
    close_session(unknown, using=USING)


@pytest.mark.parametrize("concurrency", [0, -1, 1025])
def test_an_impossible_concurrency_is_refused(worker: Worker, concurrency):
    with pytest.raises(InvalidInput, match="concurrency"):
        open_session(replace(worker.opening, session_id=uuid4(), concurrency=concurrency), using=USING)
    assert WorkerSession.objects.count() == 1


def test_another_entry_point_under_a_known_version_is_a_conflict(worker: Worker):
    other = replace(worker.opening, session_id=uuid4(), catalogue=(entry("new"), entry(entry_point="other:work")))
    with pytest.raises(Conflict, match=r"'tests.work' version '1' is tests.programs:work, and .* other:work"):
        open_session(other, using=USING)
    # Nothing of it stands: neither the session nor the new program.
    assert WorkerSession.objects.count() == 1
    assert list(Program.objects.values_list("name", flat=True)) == [PROGRAM]


def test_what_a_tenant_calls_a_program_is_no_others_affair(worker: Worker):
    theirs = (*CATALOGUE[:-1], replace(CATALOGUE[-1], entry_point="other:work"))
    for tenant, namespace in (("other", "default"), ("default", "other")):
        other = Worker(tenant=tenant, namespace=namespace, catalogue=theirs)
        submit_task(tenant=tenant, namespace=namespace)
        assert len(worker.acquire(1)) == 0
        assert len(other.acquire(1)) == 1
    assert Program.objects.filter(name=PROGRAM, version=VERSION).count() == 3
    assert worker.acquire(1) == []
    submit_task()
    assert len(worker.acquire(1)) == 1


def test_a_new_version_may_have_another_entry_point(worker: Worker):
    command = replace(worker.opening, session_id=uuid4(), catalogue=(*CATALOGUE, entry(version="2", entry_point="b:c")))
    open_session(command, using=USING)
    assert WorkerSession.objects.get(pk=command.session_id).programs == sorted(
        Program.objects.values_list("pk", flat=True)
    )


def test_an_entry_point_that_nobody_knew_is_filled_in_once(db):
    submit_task()
    assert Program.objects.get().entry_point is None
    Worker()
    assert Program.objects.get().entry_point == "tests.programs:work"
    submit_task()
    assert Program.objects.get().entry_point == "tests.programs:work"


def test_a_worker_without_programs_opens_a_session_that_gets_nothing(db):
    submit_task()
    assert Worker(catalogue=()).acquire(1) == []


@pytest.mark.django_db(transaction=True)
def test_two_processes_with_one_new_catalogue_open_both():
    catalogue = tuple(entry(name) for name in ("b", "a", "c"))
    with Rival() as rival:
        with transaction.atomic():
            Worker(catalogue=catalogue)
            opening = rival.begin(lambda: Worker(catalogue=catalogue[::-1]))
            rival.wait_until_blocked(opening)
        opening.result(20)
    assert Program.objects.count() == 3
    assert {len(session.programs) for session in WorkerSession.objects.all()} == {3}


@pytest.mark.django_db(transaction=True)
def test_a_submission_that_makes_a_queue_keeps_no_worker_from_opening(settings):
    settings.LEDGENCE = {"LOCK_TIMEOUT_SECONDS": 0.05}
    Worker()
    with Rival() as rival, rival.transaction():
        rival.do(lambda: submit_task(queue="new"))
        Worker()


@pytest.mark.django_db(transaction=True)
def test_a_catalogue_that_somebody_else_is_making_is_busy_at_last(settings):
    settings.LEDGENCE = {"LOCK_TIMEOUT_SECONDS": 0.05}
    with Rival() as rival, rival.transaction():
        rival.do(Worker)
        with pytest.raises(Busy, match="open session"):
            Worker()
