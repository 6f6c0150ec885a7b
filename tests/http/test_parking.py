"""Waiting requests, on the application in this process: who is answered, when, and what is left behind."""

import json
import time
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import transaction

from ledgence.http.running import Running
from ledgence.http.server import Server
from ledgence.models import WorkerSession
from ledgence.operations.cancel import cancel
from ledgence.operations.sessions import close_session
from tests.faults.waiting import wait_until
from tests.http.requests import acquisition
from tests.http.scene import Scene, make_token, new_session, owner, settlement
from tests.http.site import Answer, Caller, Site
from tests.ledger.actors import USING, assert_audit_clean, attempts_of, execute, state_of, submit_task, submit_tasks

pytestmark = pytest.mark.process

#: What a hint needs, on a machine that has other things to do; a poll takes up to a second.
HINT_SECONDS = 0.7
POLL_SECONDS = 1.2


#: Makes a session's channel in a transaction that is still open: whoever needs it waits.
HOLD_CHANNEL = """
insert into ledgence_channel (session_id, number, sequence, tasks, attempts, answered_at)
values (%s, 0, 0, '{}', '{}', now())
"""


class Remote:
    """A worker that asks over HTTP."""

    def __init__(self, site: Site, token: str, **opening: Any) -> None:
        self._site, self._token = site, token
        self.session = uuid4()
        self.sequence = 0
        site.ask("PUT", f"sessions/{self.session}", new_session(**opening), token=token).assert_ok()

    def begin(self, wait: float = 20.0, *, repeats: bool = False, **members: Any) -> Caller:
        """Begin the next acquisition, or the last one again."""
        if not repeats:
            self.sequence += 1
        body = {"channel": 0, "sequence": self.sequence, "capacity": 1, "wait_seconds": wait} | members
        return self._site.begin("POST", f"sessions/{self.session}/acquire", body, token=self._token)


def task_ids(answer: Answer) -> list[UUID]:
    return [UUID(assignment["task_id"]) for assignment in answer.assert_ok().get("assignments", ())]


def leases() -> int:
    return int(execute("select count(*) from ledgence_lease")[0][0])


def waiting(site: Site, count: int) -> None:
    """Wait until so many requests are parked."""
    wait_until(lambda: parked(site) == count, f"{count} parked requests")


def parked(site: Site) -> int:
    found = running(site)
    return len(found.work_waits._work) + sum(map(len, found.end_waits._ends.values()))


def running(site: Site) -> Running:
    closure = {cell.cell_contents for cell in site.application.__closure__ or ()}
    [server] = [one for one in closure if isinstance(one, Server)]
    assert server.running is not None
    return server.running


@pytest.fixture
def token(transactional_db: None) -> str:
    return make_token()


def test_work_that_is_there_is_given_at_once(site: Site, token: str) -> None:
    task, remote = submit_task(), Remote(site, token)
    began = time.monotonic()
    answer = remote.begin().answer()
    assert task_ids(answer) == [task]
    assert time.monotonic() - began < HINT_SECONDS
    assert 0 <= answer.json["held_seconds"] < HINT_SECONDS


def test_work_that_comes_is_given_at_its_hint_and_the_time_held_is_told(site: Site, token: str) -> None:
    caller = Remote(site, token).begin()
    waiting(site, 1)
    time.sleep(0.3)
    task = submit_task()
    submitted = time.monotonic()
    answer = caller.answer()
    assert time.monotonic() - submitted < HINT_SECONDS
    assert task_ids(answer) == [task]
    assert 0.3 <= answer.json["held_seconds"] < 0.3 + POLL_SECONDS


@pytest.fixture
def no_hints(settings: Any) -> None:
    settings.LEDGENCE = settings.LEDGENCE | {"HINTS": False}


def test_without_hints_work_is_found_within_a_second(no_hints: None, site: Site, token: str) -> None:
    remote = Remote(site, token)
    for _ in range(3):
        caller = remote.begin()
        waiting(site, 1)
        submitted = time.monotonic()
        task = submit_task()
        assert task_ids(caller.answer()) == [task]
        assert time.monotonic() - submitted < POLL_SECONDS


def test_without_hints_work_that_comes_as_a_wait_ends_is_found_within_a_second(
    no_hints: None, site: Site, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledgence.http.work_waits.SHORT_SECONDS", 0.0)
    remote = Remote(site, token)
    assert task_ids(remote.begin(0.01).answer()) == []
    following = remote.begin(20)
    waiting(site, 1)
    task = submit_task()
    submitted = time.monotonic()
    assert task_ids(following.answer()) == [task]
    assert time.monotonic() - submitted < POLL_SECONDS


def test_an_empty_wait_is_recorded_and_the_next_sequence_goes_on(site: Site, token: str) -> None:
    remote = Remote(site, token)
    for wait in (0.0, 0.1, 0.1):
        assert remote.begin(wait).answer().assert_ok().get("assignments", []) == []
    task = submit_task()
    assert task_ids(remote.begin(0.0).answer()) == [task]
    # Once more: what was recorded, and what is left of it.
    assert task_ids(remote.begin(0.0, repeats=True).answer()) == [task]


def test_a_long_wait_that_ends_is_recorded_with_the_others(
    site: Site, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledgence.http.work_waits.SHORT_SECONDS", 0.0)
    remotes = [Remote(site, token) for _ in range(5)]
    for _ in range(2):
        for caller in [remote.begin(0.2) for remote in remotes]:
            assert caller.answer().body == b"{}"
    sequences = execute("select sequence, cardinality(tasks) from ledgence_channel")
    assert sequences == [(2, 0)] * 5


def test_who_hangs_up_while_waiting_takes_nothing(site: Site, token: str) -> None:
    remote = Remote(site, token)
    caller = remote.begin()
    waiting(site, 1)
    caller.hang_up()
    wait_until(caller.is_answered, "the end of the request")
    assert parked(site) == 0
    submit_task()
    time.sleep(POLL_SECONDS)
    assert leases() == 0
    # The same command, again: it was never answered.
    assert len(task_ids(remote.begin(repeats=True).answer())) == 1


def test_who_hangs_up_while_others_look_takes_nothing(site: Site, token: str) -> None:
    """Two look at a time; here they are held by a lock, and who stands behind them goes away."""
    first, second, third = (Remote(site, token) for _ in range(3))
    with transaction.atomic():
        for remote in (first, second):
            execute(HOLD_CHANNEL, [remote.session])
        held = [first.begin(), second.begin()]
        gone = third.begin()
        gone.hang_up()
        wait_until(gone.is_answered, "the end of the request")
    tasks = submit_tasks(3)
    taken = [task for caller in held for task in task_ids(caller.answer())]
    assert sorted(taken) == tasks[:2]
    assert leases() == 2


def test_what_is_busy_is_not_told_to_who_may_wait(site: Site, token: str) -> None:
    remote = Remote(site, token)
    remote.begin(0.0).answer()
    task = submit_task()
    with transaction.atomic():
        execute("select 1 from ledgence_channel for update")
        caller = remote.begin()
        time.sleep(POLL_SECONDS)
        assert not caller.is_answered()
    assert task_ids(caller.answer()) == [task]


def test_a_crowd_that_one_hint_wakes_gets_each_task_once_and_no_refusal(site: Site, token: str) -> None:
    remotes = [Remote(site, token) for _ in range(300)]
    callers = [remote.begin() for remote in remotes]
    waiting(site, 300)
    tasks = submit_tasks(40)
    wait_until(lambda: leases() == 40, "40 leases")
    answered = wait_until(lambda: [one for one in callers if one.is_answered()][39:], "40 answers")
    assert answered
    given = [task for caller in callers if caller.is_answered() for task in task_ids(caller.answer())]
    assert sorted(given) == tasks
    for caller in callers:
        caller.hang_up()
    wait_until(lambda: all(one.is_answered() for one in callers), "the end of every request")
    assert_audit_clean()


def test_a_repeat_beside_the_first_gets_the_same(site: Site, token: str) -> None:
    remote = Remote(site, token)
    callers = [remote.begin(), remote.begin(repeats=True)]
    waiting(site, 2)
    tasks = submit_tasks(2)
    assert [task_ids(caller.answer()) for caller in callers] == [tasks[:1]] * 2
    assert leases() == 1


def test_a_command_with_settlements_does_not_wait(site: Site, scene: Scene) -> None:
    began = time.monotonic()
    execute("delete from ledgence_deliveryintent")
    body = acquisition(scene, wait_seconds=20, settlements=[settlement(scene.active)])
    answer = site.ask("POST", f"sessions/{scene.session}/acquire", body, token=scene.token).assert_ok()
    assert [one["status"] for one in answer["settled"]] == ["accepted"]
    assert time.monotonic() - began < HINT_SECONDS


def test_a_session_that_is_closed_while_it_waits_is_told(site: Site, token: str) -> None:
    remote = Remote(site, token)
    caller = remote.begin()
    waiting(site, 1)
    close_session(remote.session, using=USING)
    caller.answer(5).assert_problem(410, "session_expired")
    assert WorkerSession.objects.filter(pk=remote.session, closed_at__isnull=False).exists()


def test_a_session_waits_for_its_own_queues_alone(site: Site, token: str) -> None:
    mine, other = Remote(site, token, queues=["mine"]), Remote(site, token, queues=["other"])
    callers = [mine.begin(), other.begin()]
    waiting(site, 2)
    task = submit_task(queue="mine")
    assert task_ids(callers[0].answer()) == [task]
    assert not callers[1].is_answered()


@pytest.mark.parametrize("ending", ["settled", "cancelled", "timed out"])
def test_a_wait_for_a_result_ends_with_the_task_or_its_time(ending: str, site: Site, scene: Scene) -> None:
    active, queued = scene.active, scene.queued
    task = active.task_id if ending == "settled" else queued
    caller = site.begin(
        "GET",
        f"tasks/{task}/result",
        query="wait_seconds=0.4" if ending == "timed out" else "wait_seconds=20",
        token=scene.token,
    )
    waiting(site, 1)
    began = time.monotonic()
    if ending == "settled":
        site.ask(
            "POST",
            f"sessions/{scene.session}/settle",
            {"settlements": [settlement(active, result="1.0")]},
            token=scene.token,
        )
    elif ending == "cancelled":
        cancel([queued], using=USING)
    answer = caller.answer()
    assert time.monotonic() - began < POLL_SECONDS
    document = answer.assert_ok()
    assert document["state"] == {"settled": "succeeded", "cancelled": "cancelled", "timed out": "queued"}[ending]
    # The text as it was.
    assert (b'"result":1.0' in answer.body) == (ending == "settled")


def test_when_the_process_stops_every_wait_is_answered_at_once(token: str) -> None:
    with Site() as site:
        remotes = [Remote(site, token) for _ in range(30)]
        callers = [remote.begin() for remote in remotes]
        task = submit_task(run_after=None, queue="elsewhere", tenant="other")
        callers.append(
            site.begin("GET", f"tasks/{task}/result", query="wait_seconds=20", token=make_token(tenant="other"))
        )
        waiting(site, 31)
        began = time.monotonic()
    answers = [caller.answer() for caller in callers]
    assert time.monotonic() - began < 3
    assert [answer.status for answer in answers] == [200] * 31
    assert state_of(task) == "queued"
    assert execute("select count(*) from ledgence_channel where sequence = 1") == [(30,)]


def test_too_many_waits_are_busy(site: Site, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledgence.http.parking.WAITS_MAX", 2)
    callers = [Remote(site, token).begin() for _ in range(2)]
    waiting(site, 2)
    refused = Remote(site, token).begin().answer()
    assert "nothing was done" in refused.assert_problem(429, "busy")
    assert refused.headers["retry-after"] == "1"
    for caller in callers:
        caller.hang_up()


def test_nothing_is_left_of_waits_that_are_over(site: Site, token: str) -> None:
    remotes = [Remote(site, token) for _ in range(10)]
    callers = [remote.begin() for remote in remotes]
    waiting(site, 10)
    submit_tasks(5)
    wait_until(lambda: sum(one.is_answered() for one in callers) == 5, "five answers")
    for caller in callers:
        caller.hang_up()
    wait_until(lambda: all(one.is_answered() for one in callers), "the end of every request")
    wait_until(lambda: site.tasks == 0, "the end of every task")
    assert leases() == 5
    assert {len(attempts_of(task)) for (task,) in execute("select task_id from ledgence_lease")} == {1}


def test_who_stands_in_line_to_look_is_counted_too(site: Site, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledgence.http.parking.WAITS_MAX", 3)
    remotes = [Remote(site, token) for _ in range(4)]
    with transaction.atomic():
        for remote in remotes:
            execute(HOLD_CHANNEL, [remote.session])
        callers = [remote.begin() for remote in remotes[:3]]
        wait_until(lambda: running(site).parking.count == 3, "three that look or stand in line")
        remotes[3].begin().answer().assert_problem(429, "busy")
    for caller in callers:
        caller.hang_up()
    wait_until(lambda: all(one.is_answered() for one in callers), "the end of every request")
    assert running(site).parking.count == 0


def test_a_result_that_is_there_is_told_at_once_though_others_look_for_work(site: Site, scene: Scene) -> None:
    remotes = [Remote(site, scene.token) for _ in range(4)]
    path = f"tasks/{scene.cancelled}/result"
    with transaction.atomic():
        for remote in remotes:
            execute(HOLD_CHANNEL, [remote.session])
        callers = [remote.begin() for remote in remotes]
        wait_until(lambda: running(site).parking.count == 4, "four that look or stand in line")
        began = time.monotonic()
        answer = site.ask("GET", path, query="wait_seconds=20", token=scene.token)
        assert answer.assert_ok()["state"] == "cancelled"
        assert time.monotonic() - began < HINT_SECONDS
    for caller in callers:
        caller.hang_up()


@pytest.mark.parametrize("ending", ["settle", "acquire", "release", "cancel"])
def test_what_this_process_ends_is_told_to_who_waits_for_it_at_once(
    ending: str, site: Site, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledgence.http.end_waits.END_SECONDS", 60.0)
    task = scene.queued if ending == "cancel" else scene.active.task_id
    if ending == "release":
        # Without this it would be queued again.
        cancel([task], using=USING)
    caller = site.begin("GET", f"tasks/{task}/result", query="wait_seconds=20", token=scene.token)
    waiting(site, 1)
    path, body = {
        "settle": (f"sessions/{scene.session}/settle", {"settlements": [settlement(scene.active)]}),
        "acquire": (f"sessions/{scene.session}/acquire", acquisition(scene, settlements=[settlement(scene.active)])),
        "release": (f"sessions/{scene.session}/release", {"owners": [owner(scene.active)]}),
        "cancel": (f"tasks/{task}/cancel", None),
    }[ending]
    began = time.monotonic()
    site.ask("POST", path, body, token=scene.token).assert_ok()
    assert caller.answer().json["state"] == ("cancelled" if ending in ("cancel", "release") else "succeeded")
    assert time.monotonic() - began < POLL_SECONDS


def test_a_body_is_not_held_while_its_request_waits(site: Site, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledgence.http.body.HELD_BYTES_MAX", 100_000)
    callers = []
    for count in range(1, 4):
        remote = Remote(site, token)
        command = json.dumps({"channel": 0, "sequence": 1, "capacity": 1, "wait_seconds": 20}).encode()
        callers.append(
            site.begin(
                "POST",
                f"sessions/{remote.session}/acquire",
                body=command + b" " * 60_000,
                headers={"content-type": "application/json"},
                token=token,
            )
        )
        waiting(site, count)
    assert running(site)._bodies._held == 0
    for caller in callers:
        caller.hang_up()
