"""How the ledger is now: who is there, what they hold, and which of them look gone."""

from uuid import uuid4

import pytest

from ledgence.models import Publisher, Queue, WorkerSession
from ledgence.operations.sessions import close_session
from ledgence.status import Wanted, find_open_sessions, find_publishers
from ledgence_worker.protocol import CatalogueEntry
from tests.ledger.actors import CATALOGUE, PROGRAM, USING, VERSION, Worker, execute, expire_leases, submit_task

pytestmark = pytest.mark.django_db

MINE = Wanted(tenant="default", namespace="default", queue="default", program=PROGRAM, version=VERSION)
OTHER_VERSION = (CatalogueEntry(name=PROGRAM, version="0", entry_point="tests.programs:old"),)


def test_only_open_sessions_are_found() -> None:
    closed, over, open_one = Worker(), Worker(), Worker()
    close_session(closed.session_id, using=USING)
    execute("update ledgence_workersession set expires_at = now() where id = %s", [over.session_id])
    assert [session.id for session in find_open_sessions(using=USING)] == [open_one.session_id]


def test_those_that_can_run_what_is_wanted_come_first_and_tell_their_versions() -> None:
    able = Worker()
    outdated = Worker(catalogue=OTHER_VERSION)
    elsewhere = Worker(queues=("other",))
    excluding = Worker(exclude_queues=("default",))
    Worker(tenant="another")
    found = find_open_sessions(MINE, using=USING)
    assert [session.id for session in found[:2]] == [able.session_id, outdated.session_id]
    assert {session.id for session in found[2:]} == {elsewhere.session_id, excluding.session_id}
    assert [session.serves for session in found] == [True, True, False, False]
    assert [list(session.versions) for session in found[:2]] == [["1"], ["0"]]


def test_what_a_session_holds_is_counted() -> None:
    worker = Worker(catalogue=CATALOGUE)
    submit_task()
    lost = submit_task()
    worker.acquire(2)
    expire_leases(lost)
    [session] = find_open_sessions(using=USING)
    assert (len(session.running), session.live, session.free, session.concurrency) == (2, 1, 6, 8)


@pytest.mark.parametrize(
    ("extended_at", "is_silent"),
    [("now() - interval '29 s'", False), ("null", False), ("now() - interval '31 s'", True)],
)
def test_the_same_sessions_are_silent_as_in_the_model(extended_at: str, is_silent: bool) -> None:
    Worker()
    execute(f"update ledgence_workersession set extended_at = {extended_at}")  # noqa: S608
    [session] = find_open_sessions(using=USING)
    assert session.is_silent == is_silent == WorkerSession.objects.silent().exists()


def test_publishers_are_found_by_queue_the_last_that_turned_first() -> None:
    queue, other = (
        Queue.objects.create(tenant="t", namespace="n", name=name, mode=Queue.Mode.EXTERNAL, destination=f"arn:{name}")
        for name in ("mail", "reports")
    )
    insert = (
        "insert into ledgence_publisher (id, queue_id, host, pid, version, started_at, turned_at, confirmed_at) "
        "values (%s, %s, 'h', 1, '0', now() - interval '1 h', now() - %s * interval '1 s', null)"
    )
    ids = {}
    for name, pk, ago in (("gone", queue.pk, 70), ("live", queue.pk, 1), ("other", other.pk, 5)):
        ids[name] = uuid4()
        execute(insert, [ids[name], pk, ago])
    assert [publisher.id for publisher in find_publishers(using=USING)] == [ids["live"], ids["other"], ids["gone"]]
    found = find_publishers(queue.pk, using=USING)
    assert [(publisher.id, publisher.is_live) for publisher in found] == [(ids["live"], True), (ids["gone"], False)]
    assert found[0].answered_seconds is None
    assert {p.pk for p in Publisher.objects.live()} == {ids["live"], ids["other"]}
