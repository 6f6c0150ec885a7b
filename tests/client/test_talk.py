"""When a client sends a command again, and when it gives up: without a network, by a clock of the test's own."""

import email.utils
import logging
import time
from collections.abc import Callable, Generator
from typing import Any
from uuid import UUID

import pytest

from ledgence_worker import NotFinished, TaskFailed, wire
from ledgence_worker.bodies import CancelAnswer, TaskResult
from ledgence_worker.client import commands
from ledgence_worker.client.talk import Manner, Sending, converse, retry_after_seconds, wait_for_end
from ledgence_worker.errors import Busy, Conflict, InvalidInput, NotFound, Unavailable
from ledgence_worker.http_connection import Answer
from ledgence_worker.problems import MEDIA_TYPE

TASK = UUID(int=7)
CANCELLED = Answer(200, "application/json", wire.encode(CancelAnswer(status="cancelled")))
SILENCE = Unavailable("nothing came back")
HTML = Answer(502, "text/html", b"<h1>Bad Gateway</h1>")


def problem(status: int, code: str, retry_after: str | None = None) -> Answer:
    return Answer(status, MEDIA_TYPE, wire.encode_value({"code": code, "detail": "because"}), retry_after)


def standing(state: str, **members: Any) -> Answer:
    return Answer(200, "application/json", wire.encode(TaskResult(id=TASK, state=state, **members)))


class World:
    """Plays the network and the clock for one talk."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.sent: list[Sending] = []

    def manner(self, timeout: float = 30.0, tries: int = 8) -> Manner:
        return Manner(timeout=timeout, tries=tries, clock=lambda: self.now)

    def play(
        self, talk: Generator[Sending, Answer | Unavailable, Any], answer: Callable[[int], tuple[float, Any]]
    ) -> Any:
        """Answer the n-th request with what ``answer(n)`` says, after so many seconds."""
        sending = next(talk)
        try:
            while True:
                self.sent.append(sending)
                self.now += sending.pause_seconds
                seconds, what = answer(len(self.sent))
                self.now += min(seconds, sending.seconds)
                # A new one each time: what is raised gets notes.
                sending = talk.send(Unavailable(str(what)) if isinstance(what, Unavailable) else what)
        except StopIteration as end:
            return end.value


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize(
    "doubt",
    [
        pytest.param(SILENCE, id="silence"),
        pytest.param(HTML, id="page"),
        pytest.param(Answer(302, "text/html", b""), id="redirect"),
        pytest.param(Answer(200, "text/html", CANCELLED.body), id="content_type"),
        pytest.param(Answer(200, MEDIA_TYPE, CANCELLED.body), id="problem_type"),
        pytest.param(Answer(200, "application/json", CANCELLED.body[:-1]), id="truncated"),
        pytest.param(Answer(200, "application/json", b"{}"), id="lacking"),
        pytest.param(Answer(200, "application/json", b'{"x":"cancelled"}'), id="other_members"),
        pytest.param(Answer(201, "application/json", CANCELLED.body), id="status"),
        pytest.param(Answer(204, "application/json", b""), id="no_content"),
        pytest.param(problem(500, "not_found"), id="code_of_another_status"),
        pytest.param(problem(404, "gone_fishing"), id="unknown_code"),
        pytest.param(Answer(404, "application/json", problem(404, "not_found").body), id="problem_as_json"),
        pytest.param(problem(503, "unavailable", "1"), id="unavailable"),
        pytest.param(problem(429, "busy", "1"), id="busy"),
    ],
)
def test_whatever_is_in_doubt_is_sent_again_unchanged(world: World, doubt: Any) -> None:
    call = commands.cancel(TASK)
    answer = world.play(converse(call, world.manner()), lambda n: (0.01, doubt if n < 3 else CANCELLED))
    assert answer == CancelAnswer(status="cancelled")
    assert [sending.request for sending in world.sent] == [call.request] * 3


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(problem(400, "invalid_input"), InvalidInput, id="invalid"),
        pytest.param(problem(413, "invalid_input"), InvalidInput, id="too_large"),
        pytest.param(problem(404, "not_found"), NotFound, id="not_found"),
        pytest.param(problem(409, "conflict"), Conflict, id="conflict"),
    ],
)
def test_a_decision_is_raised_at_once(world: World, answer: Answer, error: type[Exception]) -> None:
    with pytest.raises(error, match="because"):
        world.play(converse(commands.cancel(TASK), world.manner()), lambda n: (0.01, answer))
    assert len(world.sent) == 1


def test_the_tries_are_bounded_and_the_pauses_grow(world: World) -> None:
    with pytest.raises(Unavailable, match="nothing came back") as caught:
        world.play(converse(commands.cancel(TASK), world.manner(tries=5)), lambda n: (0.0, SILENCE))
    assert len(world.sent) == 5
    for sending, most in zip(world.sent, (0.0, 0.1, 0.2, 0.4, 0.8), strict=True):
        assert most / 2 <= sending.pause_seconds <= most
    assert caught.value.__notes__ == [f"POST /tasks/{TASK}/cancel was sent 5 times in {world.now - 1000:.1f} s."]


def test_pauses_are_jittered() -> None:
    pauses = set()
    for _ in range(10):
        world = World()
        world.play(converse(commands.cancel(TASK), world.manner()), lambda n: (0.0, SILENCE if n == 1 else CANCELLED))
        pauses.add(world.sent[1].pause_seconds)
    assert len(pauses) > 1


def test_a_server_that_never_answers_costs_the_time_out_and_leaves_time_for_repeats(world: World) -> None:
    with pytest.raises(Unavailable):
        world.play(converse(commands.cancel(TASK), world.manner(timeout=10.0)), lambda n: (3600.0, SILENCE))
    assert world.sent[0].seconds == pytest.approx(5.0)
    assert len(world.sent) > 3
    assert world.now <= 1010.0


def test_the_last_try_has_all_the_time_that_is_left(world: World) -> None:
    with pytest.raises(Unavailable):
        world.play(converse(commands.cancel(TASK), world.manner(timeout=10.0, tries=2)), lambda n: (3600.0, SILENCE))
    assert len(world.sent) == 2
    assert world.now == pytest.approx(1010.0)


def test_a_wait_of_the_service_does_not_count(world: World) -> None:
    call = commands.result(TASK, raw=False, wait_seconds=20.0)
    world.play(converse(call, world.manner(timeout=10.0)), lambda n: (20.0, standing("queued")))
    assert world.sent[0].seconds == pytest.approx(25.0)


def test_a_large_body_has_the_time_that_its_size_takes(world: World) -> None:
    call = commands.submit("p", "1", "x" * 1_000_000, {})
    assert call.body_seconds > 10
    with pytest.raises(Unavailable):
        world.play(converse(call, world.manner(timeout=10.0)), lambda n: (12.0, SILENCE))
    # What sends adds the size to it once more.
    assert world.sent[0].seconds == pytest.approx(5.0)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(problem(503, "unavailable", "3"), id="unavailable"),
        pytest.param(problem(429, "busy", "3"), id="busy"),
        pytest.param(HTML._replace(retry_after="3"), id="page"),
    ],
)
def test_retry_after_is_honoured(world: World, answer: Answer) -> None:
    world.play(converse(commands.cancel(TASK), world.manner()), lambda n: (0.0, answer if n == 1 else CANCELLED))
    assert 3.0 < world.sent[1].pause_seconds <= 3.1


def test_a_pause_that_does_not_fit_ends_the_call(world: World) -> None:
    with pytest.raises(Busy):
        world.play(converse(commands.cancel(TASK), world.manner()), lambda n: (0.0, problem(429, "busy", "60")))
    assert len(world.sent) == 1
    assert world.now == 1000.0


@pytest.mark.parametrize("header", [None, "", "soon", "-1", "1e9", "٣", "9" * 40])
def test_a_retry_after_that_cannot_be_read_asks_for_nothing(header: str | None) -> None:
    assert retry_after_seconds(header) == 0.0


def test_a_retry_after_may_be_a_date() -> None:
    assert 50 < retry_after_seconds(email.utils.formatdate(time.time() + 60, usegmt=True)) <= 60
    assert retry_after_seconds("Thu, 01 Jan 1970 00:00:00 GMT") == 0.0


def test_the_identity_of_a_command_that_stays_unknown_is_told(world: World) -> None:
    call = commands.submit("p", "1", None, {})
    with pytest.raises(Unavailable) as caught:
        world.play(converse(call, world.manner(tries=1)), lambda n: (0.0, SILENCE))
    assert any("idempotency_key=client-" in note for note in caught.value.__notes__)


def test_outages_are_logged_without_what_is_looked_for(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    call = commands.list_tasks({"idempotency_key": "secret-thing"})
    with pytest.raises(Unavailable):
        world.play(converse(call, world.manner(tries=2)), lambda n: (0.0, SILENCE))
    assert "GET /tasks tries=1" in caplog.text
    assert "secret-thing" not in caplog.text


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan"), "30", None])
def test_a_time_out_that_is_none_is_refused(timeout: Any) -> None:
    with pytest.raises(InvalidInput, match="timeout"):
        Manner(timeout=timeout, tries=8)


class TestWait:
    def wait(self, world: World, timeout: float, answer: Callable[[int], tuple[float, Any]]) -> Any:
        return world.play(wait_for_end(TASK, timeout, world.manner(timeout=10.0), raw=False), answer)

    def asked(self, world: World) -> list[str]:
        return [sending.request.path.partition("?")[2] for sending in world.sent]

    def test_asks_in_bounded_waits_until_the_end(self, world: World) -> None:
        ended = standing("succeeded", result={"total": 3})
        assert self.wait(world, 50.0, lambda n: (20.0, standing("active")) if n < 3 else (4.0, ended)) == {"total": 3}
        assert self.asked(world) == ["wait_seconds=20.000", "wait_seconds=20.000", "wait_seconds=10.000"]
        assert [sending.pause_seconds for sending in world.sent] == [0.0, 0.0, 0.0]

    def test_raises_not_finished_after_the_time_out(self, world: World) -> None:
        with pytest.raises(NotFinished, match=f"{TASK} is queued after 30 s"):
            self.wait(world, 30.0, lambda n: (20.0 if n == 1 else 10.0, standing("queued")))
        assert self.asked(world) == ["wait_seconds=20.000", "wait_seconds=10.000"]

    def test_without_time_looks_once(self, world: World) -> None:
        with pytest.raises(NotFinished):
            self.wait(world, 0.0, lambda n: (0.01, standing("queued")))
        assert self.asked(world) == [""]

    @pytest.mark.parametrize(
        ("state", "error", "text"),
        [("failed", "attempt 1 lost", "failed: attempt 1 lost"), ("cancelled", None, r"cancelled\.")],
    )
    def test_raises_task_failed(self, world: World, state: str, error: str | None, text: str) -> None:
        with pytest.raises(TaskFailed, match=f"Task {TASK} {text}$") as caught:
            self.wait(world, 30.0, lambda n: (1.0, standing(state, error=error)))
        assert (caught.value.task_id, caught.value.outcome) == (TASK, state)

    def test_does_not_hurry_a_service_that_does_not_wait(self, world: World) -> None:
        with pytest.raises(NotFinished):
            self.wait(world, 10.0, lambda n: (0.01, standing("queued")))
        assert 20 <= len(world.sent) <= 28

    def test_lasts_through_an_outage(self, world: World) -> None:
        ended = standing("succeeded", result=1)
        assert self.wait(world, 600.0, lambda n: (0.0, SILENCE) if n < 100 else (0.0, ended)) == 1

    def test_tells_a_doubt_that_is_left_at_the_end(self, world: World) -> None:
        with pytest.raises(Unavailable):
            self.wait(world, 5.0, lambda n: (0.0, standing("queued") if n == 1 else SILENCE))
        assert world.now <= 1005.0

    def test_a_result_without_a_value_is_a_doubt(self, world: World) -> None:
        whole = standing("succeeded", result=None)
        answer = self.wait(world, 30.0, lambda n: (0.0, standing("succeeded") if n == 1 else whole))
        assert answer is None
        assert len(world.sent) == 2

    @pytest.mark.parametrize("timeout", [-1.0, float("nan"), None])
    def test_refuses_a_time_that_is_none(self, world: World, timeout: Any) -> None:
        with pytest.raises(InvalidInput, match="timeout"):
            self.wait(world, timeout, lambda n: (0.0, SILENCE))
