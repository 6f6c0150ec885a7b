"""The claimer: nothing is acknowledged before its answer is known and found good, and every message is resolved."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

import pytest

from ledgence.testing.delivery import MemoryBroker
from ledgence_worker.acknowledger import Acknowledger
from ledgence_worker.claimer import Claimer
from ledgence_worker.claims import ClaimStatus
from ledgence_worker.deliveries import Mismatch
from ledgence_worker.delivery.ports import Message
from ledgence_worker.errors import Busy, Forbidden, InvalidInput, NotFound, SessionExpired, Unavailable
from ledgence_worker.patience import Forced
from ledgence_worker.protocol import Assignment
from tests.worker.fakes import FakeClock, FakeTaskService, LostReply, make_assignment, make_shared
from tests.worker.routed import QUEUE, SpyQueue, body_of, make_queue


class Fixture:
    """A claimer whose messages were received already, each with a slot. The journal tells the order of calls."""

    def __init__(self, concurrency: int = 8) -> None:
        self.journal: list[str] = []
        self.service = FakeTaskService()
        self.clock = FakeClock()
        self.shared = make_shared(self.service, self.clock, concurrency=concurrency)
        self.broker = MemoryBroker()
        self.spy = SpyQueue(self.broker, self.journal)
        queue = make_queue(self.spy)
        self.acknowledger = Acknowledger(queue, self.clock, linger_seconds=0)
        self.claimer = Claimer(self.shared, queue, self.acknowledger, channel=2)
        for name in ("claim", "quarantine"):
            self._journalled(name)

    def _journalled(self, name: str) -> None:
        call = getattr(self.service, name)

        def journalled(*arguments):
            self.journal.append(name)
            return call(*arguments)

        setattr(self.service, name, journalled)

    def submit(self, count: int, **kind) -> list[Assignment]:
        return self.service.submit(count, queue=QUEUE, **kind)

    def receive(self, *bodies: str) -> list[Message]:
        """Receive exactly these, with a slot reserved for each."""
        self.shared.slots.reserve(len(bodies))
        self.broker.put(*bodies)
        return list(self.spy.inner.receive(len(bodies), 0))

    def step(self, messages: Sequence[Message]) -> None:
        self.claimer.step(messages)
        while self.acknowledger._receipts:
            self.acknowledger.step(self.acknowledger._take())

    def granted(self) -> list[Assignment]:
        return [authority.assignment for authority in self.shared.inbox.take_granted()]

    @property
    def slots(self) -> tuple[int, int, int]:
        slots = self.shared.slots
        return slots.free, slots.asked, slots.occupied

    @property
    def left(self) -> int:
        return self.broker.in_flight + self.broker.waiting


@pytest.fixture
def fixture() -> Fixture:
    return Fixture()


def test_work_is_claimed_and_held_before_its_message_is_acknowledged(fixture: Fixture):
    tasks = fixture.submit(3)
    messages = fixture.receive(*map(body_of, tasks))

    def look() -> None:
        assert fixture.slots == (5, 0, 3)
        assert [one.assignment for one in fixture.shared.keeper.renewable()] == tasks

    fixture.spy.before_acknowledge = look
    fixture.step(messages)
    assert fixture.journal == ["claim", "acknowledge"]
    [command] = fixture.service.claims
    assert (command.channel, command.sequence, command.authorize) == (2, 1, True)
    assert [(d.task_id, d.generation) for d in command.dispatches] == [(task.task_id, 1) for task in tasks]
    assert fixture.granted() == tasks
    assert fixture.spy.acknowledged == [message.receipt for message in messages]
    assert fixture.left == 0


def test_duplicates_cost_one_claim_and_all_are_acknowledged(fixture: Fixture):
    [task] = fixture.submit(1)
    fixture.step(fixture.receive(*[body_of(task)] * 5))
    [command] = fixture.service.claims
    assert len(command.dispatches) == 1
    assert (fixture.slots, fixture.granted(), fixture.left) == ((7, 0, 1), [task], 0)
    # Another delivery comes later: no execution, and it is gone.
    fixture.step(fixture.receive(body_of(task)))
    assert (fixture.slots, fixture.granted(), fixture.left) == ((7, 0, 1), [], 0)
    assert [command.sequence for command in fixture.service.claims] == [1, 2]


@pytest.mark.parametrize("status", sorted(set(ClaimStatus) - {ClaimStatus.CLAIMED, ClaimStatus.NOT_FOUND}))
def test_what_is_not_claimed_frees_its_slot_and_is_acknowledged(fixture: Fixture, status):
    task = make_assignment(queue=QUEUE)
    fixture.service.claim_statuses[task.task_id, 1] = status
    fixture.step(fixture.receive(body_of(task)))
    assert fixture.journal == ["claim", "acknowledge"]
    assert (fixture.slots, fixture.granted(), fixture.left) == ((8, 0, 0), [], 0)
    assert fixture.service.quarantined == []


def test_what_does_not_exist_is_recorded_and_then_acknowledged(fixture: Fixture):
    [task] = fixture.submit(1)
    unknown = body_of(make_assignment(queue=QUEUE))
    messages = fixture.receive(unknown, body_of(task), unknown)
    fixture.spy.before_acknowledge = lambda: fixture.journal.append(f"recorded {len(fixture.service.quarantined)}")
    fixture.step(messages)
    assert fixture.journal == ["claim", "quarantine", "recorded 2", "acknowledge"]
    told = [(queue, one.reason, one.message_id) for queue, one in fixture.service.quarantined]
    assert told == [(QUEUE, "not_found", messages[n].message_id) for n in (0, 2)]
    assert (fixture.slots, fixture.granted(), fixture.left) == ((7, 0, 1), [task], 0)


def test_rubbish_is_recorded_while_the_rest_is_claimed(fixture: Fixture, caplog):
    [task] = fixture.submit(1)
    messages = fixture.receive("rubbish", body_of(task), "x" * 20_000, body_of(task, tenant="other"))
    fixture.step(messages)
    told = {one.message_id: (one.reason, len(one.body)) for _, one in fixture.service.quarantined}
    assert {name: reason for name, (reason, _) in told.items()} == {
        messages[0].message_id: "malformed",
        messages[2].message_id: "oversized",
        messages[3].message_id: "foreign",
    }
    assert told[messages[2].message_id][1] == 4096
    assert (fixture.slots, fixture.granted(), fixture.left) == ((7, 0, 1), [task], 0)
    assert "x" * 100 not in caplog.text


def test_rubbish_alone_asks_for_nothing(fixture: Fixture):
    fixture.step(fixture.receive("rubbish"))
    assert fixture.journal == ["quarantine", "acknowledge"]
    assert fixture.slots == (8, 0, 0)


def test_what_cannot_be_recorded_now_is_recorded_later_and_only_then_acknowledged(fixture: Fixture):
    fixture.service.faults["quarantine"].extend([Unavailable("down"), Busy("full"), LostReply()])
    fixture.step(fixture.receive("rubbish"))
    assert fixture.journal == ["quarantine"] * 4 + ["acknowledge"]
    assert len(fixture.clock.pauses) == 3


@pytest.mark.parametrize("error", [NotFound("no queue"), InvalidInput("no id"), Forbidden("no role")])
def test_what_is_not_recorded_stays_and_the_worker_goes_on(fixture: Fixture, caplog, error):
    fixture.service.faults["quarantine"].append(error)
    fixture.step(fixture.receive("rubbish"))
    assert fixture.journal == ["quarantine"]
    assert (fixture.left, fixture.slots) == (1, (8, 0, 0))
    assert "messages not recorded" in caplog.text


def test_recording_is_given_up_once_the_worker_drains(fixture: Fixture):
    messages = fixture.receive("rubbish")
    fixture.service.is_down = True
    fixture.shared.stopping.draining.set()
    fixture.step(messages)
    assert fixture.journal == ["quarantine"]
    assert fixture.left == 1


@pytest.mark.parametrize(
    "faults",
    [[LostReply()], [Unavailable("down"), LostReply(), LostReply()], [LostReply(), Busy("locked"), LostReply()]],
    ids=["lost", "down and lost", "lost and busy"],
)
def test_a_claim_without_an_answer_is_repeated_and_nothing_is_acknowledged_meanwhile(fixture: Fixture, faults):
    tasks = fixture.submit(2)
    fixture.service.faults["claim"].extend(faults)
    fixture.step(fixture.receive(*map(body_of, tasks)))
    assert fixture.journal == ["claim"] * (len(faults) + 1) + ["acknowledge"]
    first, *others = fixture.service.claims
    assert others == [first] * len(faults)
    assert (fixture.granted(), fixture.slots) == (tasks, (6, 0, 2))
    fixture.step(fixture.receive(body_of(tasks[0])))
    assert fixture.service.claims[-1].sequence == 2


def hold(fixture: Fixture, held: Assignment) -> None:
    """Let somebody's transaction hold the intent of a task."""
    original = fixture.service.claim

    def claim(command):
        if any(dispatch.task_id == held.task_id for dispatch in command.dispatches):
            raise Busy("somebody holds it")
        return original(command)

    fixture.service.claim = claim  # type: ignore[method-assign]


def test_work_that_somebody_holds_keeps_no_other(fixture: Fixture, caplog):
    first, held, last = fixture.submit(3)
    hold(fixture, held)
    messages = fixture.receive(body_of(first), "rubbish", body_of(held), body_of(held), body_of(last))
    fixture.step(messages)
    assert fixture.granted() == [first, last]
    assert fixture.slots == (6, 0, 2)
    # Its messages stay: they come again when their visibility ends.
    assert fixture.left == 2
    assert "claim not decided, its message comes again" in caplog.text
    assert f"task={held.task_id}" in caplog.text


def test_a_lone_claim_that_is_busy_for_a_moment_is_repeated(fixture: Fixture):
    [assignment] = fixture.submit(1)
    fixture.service.faults["claim"].extend([Busy("publisher")] * 4)
    fixture.step(fixture.receive(body_of(assignment)))
    assert fixture.granted() == [assignment]
    assert fixture.left == 0


def test_a_claim_whose_reply_was_lost_is_never_given_up(fixture: Fixture):
    """It may have been carried out: only its own answer tells."""
    assignments = fixture.submit(2)
    fixture.service.faults["claim"].extend([LostReply(), *[Busy("locked")] * 9])
    fixture.step(fixture.receive(*map(body_of, assignments)))
    assert fixture.granted() == assignments
    assert len({claim.dispatches for claim in fixture.service.claims}) == 1


def test_an_attempt_whose_lease_ended_before_its_answer_came_is_not_run(fixture: Fixture, caplog):
    lost, kept = fixture.submit(2)
    fixture.service.faults["claim"].append(LostReply())
    call = fixture.service.claim

    def claim(command):
        try:
            return call(command)
        finally:
            fixture.service.live.pop((lost.task_id, 1), None)

    fixture.service.claim = claim  # type: ignore[method-assign]
    fixture.step(fixture.receive(body_of(lost), body_of(kept)))
    assert (fixture.granted(), fixture.slots, fixture.left) == ([kept], (7, 0, 1), 0)
    assert "lost before it started" in caplog.text


def test_the_bound_counts_from_when_the_answered_claim_was_sent(fixture: Fixture):
    fixture.submit(1, remaining=60.0)
    fixture.service.faults["claim"].append(Unavailable("down"))
    call = fixture.service.claim

    def claim(command):
        fixture.clock.advance(7)
        return call(command)

    fixture.service.claim = claim  # type: ignore[method-assign]
    sent_at = fixture.clock.now + 7
    fixture.step(fixture.receive(body_of(fixture.service.due[0])))
    [authority] = fixture.shared.inbox.take_granted()
    assert authority.ends_at == sent_at + 60 - 5


def test_answers_that_do_not_match_acknowledge_nothing_and_run_nothing(fixture: Fixture):
    [task] = fixture.submit(1)
    call = fixture.service.claim

    def claim(command):
        reply = call(command)
        return replace(reply, assignments=(replace(reply.assignments[0], task_id=uuid4()),))

    fixture.service.claim = claim  # type: ignore[method-assign]
    with pytest.raises(Mismatch):
        fixture.step(fixture.receive(body_of(task)))
    assert (fixture.journal, fixture.granted(), fixture.left) == (["claim"], [], 1)


def run(fixture: Fixture) -> threading.Thread:
    thread = threading.Thread(target=fixture.claimer.run, daemon=True)
    thread.start()
    return thread


def test_what_came_while_a_claim_was_out_is_claimed_together(fixture: Fixture):
    tasks = fixture.submit(6)
    for task in tasks:
        assert fixture.claimer.put(fixture.receive(body_of(task)))
    assert not fixture.claimer.is_idle
    fixture.claimer.close()
    run(fixture).join(10)
    assert [len(command.dispatches) for command in fixture.service.claims] == [6]
    assert fixture.claimer.is_idle


def test_one_claim_names_no_more_than_one_request_may():
    fixture = Fixture(concurrency=40)
    tasks = fixture.submit(40)
    for chunk in (tasks[:10], tasks[10:20], tasks[20:30], tasks[30:]):
        fixture.claimer.put(fixture.receive(*map(body_of, chunk)))
    fixture.claimer.close()
    run(fixture).join(10)
    assert [len(command.dispatches) for command in fixture.service.claims] == [32, 8]
    assert fixture.slots == (0, 0, 40)


def test_once_closed_nothing_is_taken(fixture: Fixture):
    fixture.claimer.close()
    assert not fixture.claimer.put(fixture.receive("x"))


def test_what_waits_when_the_worker_stops_is_given_back_and_not_claimed(fixture: Fixture):
    messages = fixture.receive(body_of(fixture.submit(1)[0]), "rubbish")
    fixture.shared.stopping.request("test")
    fixture.step(messages)
    assert fixture.journal == ["give_back"]
    assert (fixture.slots, fixture.broker.waiting) == ((8, 0, 0), 2)


def test_a_refused_session_gives_everything_back(fixture: Fixture):
    fixture.service.faults["claim"].append(SessionExpired("over"))
    waiting = [fixture.receive(body_of(task)) for task in fixture.submit(2)]
    fixture.claimer.put(waiting[0])
    call = fixture.service.claim

    def claim(command):
        # It comes while the claim is out.
        fixture.claimer.put(waiting[1])
        return call(command)

    fixture.service.claim = claim  # type: ignore[method-assign]
    with pytest.raises(SessionExpired):
        fixture.claimer.run()
    assert fixture.broker.waiting == 2
    assert fixture.claimer.is_idle
    assert not fixture.claimer.put(waiting[0])


def test_a_forced_stop_ends_a_claim_without_an_answer(fixture: Fixture):
    messages = fixture.receive(body_of(fixture.submit(1)[0]))
    fixture.service.is_down = True
    wait = fixture.clock.wait

    def pause(event, seconds):
        fixture.shared.stopping.forced.set()
        return wait(event, seconds)

    fixture.clock.wait = pause  # type: ignore[method-assign]
    with pytest.raises(Forced):
        fixture.step(messages)
    # It may have been claimed: it is neither acknowledged nor given back.
    assert fixture.journal == ["claim"]
    assert fixture.left == 1
