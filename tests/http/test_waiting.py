"""Waits on real servers: what they hold, who wakes them, and what is left when a caller or the server goes away."""

import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any
from uuid import UUID

import psutil
import pytest
from django.db import transaction

from tests.faults.waiting import wait_until
from tests.http.crowd import Crowd, Member
from tests.http.requests import acquisition
from tests.http.scene import Scene, make_token, new_session, settlement
from tests.http.servers import Server, serving
from tests.http.sockets import Connection, ask
from tests.ledger.actors import assert_audit_clean, execute, state_of, submit_task, submit_tasks

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]

MIB = 1024 * 1024
#: What a hint needs on a machine that has other things to do.
HINT_SECONDS = 1.0


def worker_of(server: Server) -> psutil.Process:
    [worker] = psutil.Process(server.process.pid).children()
    return worker


def sockets_of(worker: psutil.Process, port: int) -> int:
    """Count the connections that a process has with its callers."""
    return sum(one.status == "ESTABLISHED" and one.laddr.port == port for one in worker.net_connections())


def in_transaction() -> list[Any]:
    """The service's connections that are in a transaction, or at a statement."""
    return execute(
        "select application_name, state, left(query, 80) from pg_stat_activity where datname = current_database() "
        "and application_name like 'ledgence %' and application_name <> 'ledgence listener' "
        "and (state <> 'idle' or xact_start is not null)"
    )


def leases() -> int:
    return int(execute("select count(*) from ledgence_lease")[0][0])


def ask_and_park(crowd: Crowd) -> list[Future[list[UUID]]]:
    """Let everybody ask for work, and wait until everybody has been seen to wait for some time."""
    waiting = crowd.ask_for_work(20)
    count = len(waiting)
    looked = "select count(*) from ledgence_channel"
    wait_until(lambda: execute(looked) == [(count,)], f"the first look of {count} sessions")
    time.sleep(1.0)
    assert not any(one.done() for one in waiting)
    return waiting


def test_five_hundred_waiting_sockets_cost_little_memory_few_threads_and_no_transaction(server: Server) -> None:
    worker = worker_of(server)
    with Crowd(server.port, make_token(), 500) as crowd:
        waiting = ask_and_park(crowd)
        assert sockets_of(worker, server.port) >= 500
        assert worker.memory_info().rss < 150 * MIB
        assert worker.num_threads() <= 20
        # A probe is one statement without a transaction around it; between two there is nothing.
        seen = [in_transaction() for _ in range(20)]
        assert any(one == [] for one in seen), seen
        tasks = submit_tasks(3)
        done = wait_until(lambda: [one for one in waiting if one.done()][2:] and waiting, "three answers")
        assert sorted(task for one in done if one.done() for task in one.result()) == tasks
        assert worker.memory_info().rss < 150 * MIB


@pytest.mark.slow
def test_two_hundred_waiting_sessions_cost_less_than_five_statements_a_second(server: Server) -> None:
    async def work(member: Member, until: float) -> None:
        # Long enough to end with the others, so that each asks again and again.
        while time.monotonic() < until:
            assert await member.acquire(4) == []

    with Crowd(server.port, make_token(), 200) as crowd:
        working = [crowd.begin(work(member, time.monotonic() + 25)) for member in crowd.members]
        looked = "select count(*) from ledgence_channel"
        wait_until(lambda: execute(looked) == [(200,)], "the first look of all")
        # A connection of the service that has just become idle tells what it has done up to ten seconds later.
        time.sleep(12)
        before, began = commits(), time.monotonic()
        time.sleep(9)
        seconds = time.monotonic() - began
        rate = (commits() - before) / seconds
        assert rate < 5, rate
        for one in working:
            one.result(30)


def commits() -> int:
    """Transactions that the database has counted; the service's connections tell within ten seconds of idleness."""
    execute("select pg_stat_force_next_flush(), pg_stat_clear_snapshot()")
    return int(execute("select xact_commit from pg_stat_database where datname = current_database()")[0][0])


@pytest.fixture
def pair(database_url: str) -> Iterator[tuple[Server, Server]]:
    """Two servers over one database."""
    with serving(database_url) as first, serving(database_url) as second:
        yield first, second


def test_a_submission_to_one_server_wakes_a_wait_at_another(pair: tuple[Server, Server]) -> None:
    first, second = pair
    token = make_token()
    with Connection(first.port) as waiting:
        session = open_session(waiting, token)
        waiting.ask("POST", f"sessions/{session}/acquire", command(1, wait=0), token=token).assert_ok()
        for sequence in range(2, 6):
            waiting.begin("POST", f"sessions/{session}/acquire", command(sequence), token=token)
            time.sleep(0.2)
            submitted = time.monotonic()
            task = ask(second.port, "POST", "tasks", {"program": "tests.work", "version": "1"}, token=token).assert_ok(
                201
            )
            answer = waiting.answer().assert_ok()
            assert time.monotonic() - submitted < HINT_SECONDS
            assert [one["task_id"] for one in answer["assignments"]] == [task["id"]]
            assert answer["held_seconds"] >= 0.15


def test_a_wait_for_a_result_at_one_server_ends_with_a_settlement_at_another(
    pair: tuple[Server, Server], scene: Scene
) -> None:
    first, second = pair
    with Connection(first.port) as waiting:
        waiting.begin("GET", f"tasks/{scene.active.task_id}/result", query="wait_seconds=20", token=scene.token)
        time.sleep(0.2)
        path, body = f"sessions/{scene.session}/settle", {"settlements": [settlement(scene.active, result="7")]}
        ask(second.port, "POST", path, body, token=scene.token).assert_ok()
        settled = time.monotonic()
        answer = waiting.answer().assert_ok()
        assert time.monotonic() - settled < HINT_SECONDS
        assert (answer["state"], answer["result"]) == ("succeeded", 7)


def command(sequence: int, wait: float = 20) -> dict[str, Any]:
    return {"channel": 0, "sequence": sequence, "capacity": 1, "wait_seconds": wait}


def open_session(caller: Connection, token: str) -> UUID:
    session = Member(0, token).session
    caller.ask("PUT", f"sessions/{session}", new_session(), token=token).assert_ok()
    return session


def test_who_hangs_up_while_waiting_is_given_nothing(server: Server) -> None:
    token = make_token()
    with Connection(server.port) as caller:
        session = open_session(caller, token)
        caller.begin("POST", f"sessions/{session}/acquire", command(1), token=token)
        wait_until(lambda: execute("select 1 from ledgence_channel"), "the first look")
        time.sleep(0.3)
    task = submit_task()
    time.sleep(1.5)
    assert leases() == 0
    assert state_of(task) == "queued"
    # The command was not answered, so it is sent again.
    answer = ask(server.port, "POST", f"sessions/{session}/acquire", command(1), token=token).assert_ok()
    assert [one["task_id"] for one in answer["assignments"]] == [str(task)]
    assert_audit_clean()


def test_what_was_being_committed_when_the_caller_hung_up_stands_and_a_repeat_gets_its_answer(
    server: Server, scene: Scene
) -> None:
    path, body = f"sessions/{scene.session}/acquire", acquisition(scene, settlements=[settlement(scene.active)])
    with transaction.atomic():
        execute("select 1 from ledgence_lease for update")
        with Connection(server.port) as caller:
            caller.begin("POST", path, body, token=scene.token)
            wait_until(is_blocked, "the settlement to wait for the lease")
    wait_until(lambda: state_of(scene.active.task_id) == "succeeded", "the settlement")
    wait_until(lambda: leases() == 1, "what was acquired with it")
    first = ask(server.port, "POST", path, body, token=scene.token).assert_ok()
    second = ask(server.port, "POST", path, body, token=scene.token).assert_ok()
    for answer in (first, second):
        assert [one["status"] for one in answer["settled"]] == ["accepted"]
        assert [one["task_id"] for one in answer["assignments"]] == [str(scene.queued)]
    assert leases() == 1
    assert_audit_clean()


def is_blocked() -> bool:
    execute("select pg_stat_clear_snapshot()")
    return bool(
        execute(
            "select 1 from pg_stat_activity where datname = current_database() "
            "and application_name like 'ledgence %' and cardinality(pg_blocking_pids(pid)) > 0"
        )
    )


def test_a_signal_answers_every_wait_at_once_and_the_server_is_gone(database_url: str) -> None:
    with serving(database_url, "--graceful-timeout", "30") as server, Crowd(server.port, make_token(), 100) as crowd:
        waiting = ask_and_park(crowd)
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert [one.result(10) for one in waiting] == [[]] * 100
        assert time.monotonic() - began < 3
        server.process.wait(10)
        assert time.monotonic() - began < 6
        assert server.process.returncode == 0
    assert execute("select sequence, count(*) from ledgence_channel group by 1") == [(1, 100)]
    assert_audit_clean()


def test_a_second_signal_does_not_make_it_slower(database_url: str) -> None:
    with serving(database_url, "--graceful-timeout", "30") as server, Crowd(server.port, make_token(), 20) as crowd:
        ask_and_park(crowd)
        began = time.monotonic()
        for stop in (signal.SIGTERM, signal.SIGINT):
            server.process.send_signal(stop)
        server.process.wait(10)
        assert time.monotonic() - began < 6
