"""Every command over HTTP that changes something, under each fault of the way: repeated, it takes effect once."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from uuid import uuid4

import pytest

from ledgence.handle import TaskHandle
from ledgence.models import DeliveryIntent, Lease, OperatorAction, QuarantinedMessage, State, Task, WorkerSession
from ledgence.tokens import Role
from ledgence_worker import limits
from ledgence_worker.bodies import AuthorizationAnswers, NewTaskBody, OwnersBody
from ledgence_worker.claims import Claim, Claimed, Dispatch, RefusedMessage
from ledgence_worker.client import Client
from ledgence_worker.errors import Busy, InvalidInput, SessionExpired, Unavailable
from ledgence_worker.http_service import HttpTaskService
from ledgence_worker.protocol import (
    Acquire,
    Acquired,
    Assignment,
    CatalogueEntry,
    OpenSession,
    Outcome,
    RenewStatus,
    Settlement,
    SettleStatus,
)
from tests.faults.http_proxy import EVERY_FAULT, Fault, HttpProxy
from tests.faults.remote_site import RemoteSite
from tests.faults.site import QUEUE

pytestmark = [pytest.mark.process, pytest.mark.slow]

each_fault = pytest.mark.parametrize("fault", EVERY_FAULT)
TRIES = 20
CATALOGUE = (CatalogueEntry(name="plain-echo", version="1", entry_point="tests.faults.zoo.plain:echo"),)


class Caller:
    """A worker without processes, which repeats each command until it is answered."""

    def __init__(self, site: RemoteSite, proxy: HttpProxy) -> None:
        self.proxy = proxy
        # A reply that is held back costs so much. An answer that takes longer is asked for again.
        self.service = HttpTaskService(proxy.url, site.token, answer_seconds=0.5)
        self.command = OpenSession(
            session_id=uuid4(),
            name="caller",
            host="here",
            pid=1,
            version="1",
            concurrency=4,
            tenant="default",
            namespace="default",
            queues=(QUEUE,),
            catalogue=CATALOGUE,
        )
        self.session_id = self.command.session_id
        self._sequence = 0

    def open(self) -> "Caller":
        self.service.open_session(self.command)
        return self

    def next(self, *settlements: Settlement) -> Acquire:
        self._sequence += 1
        return Acquire(
            session_id=self.session_id, channel=0, sequence=self._sequence, capacity=3, settlements=settlements
        )

    def take(self) -> tuple[Assignment, ...]:
        return self.service.acquire(self.next()).assignments

    def under[T](self, fault: Fault, operation: str, call: Callable[[], T]) -> T:
        """Let a command meet a fault, and repeat it until it is answered."""
        self.proxy.inflict(operation, fault)
        for _ in range(TRIES):
            try:
                answer = call()
            except (Busy, Unavailable):
                continue
            assert (operation, fault) in self.proxy.inflicted, "nothing happened, so nothing was tested"
            return answer
        raise AssertionError(f"{operation} had no answer in {TRIES} tries")


@pytest.fixture
def caller(remote: RemoteSite, http_proxy: HttpProxy) -> Iterator[Caller]:
    made = Caller(remote, http_proxy)
    with closing(made.service):
        yield made


@pytest.fixture
def client(remote: RemoteSite, http_proxy: HttpProxy) -> Iterator[Client]:
    _, token = remote.issue(Role.SUBMIT, Role.OPERATE)
    # Each try gets half of the time that is left.
    with Client(http_proxy.url, token, timeout=2.0) as made:
        yield made


def submit(site: RemoteSite, count: int = 3) -> list[TaskHandle]:
    return [site.submit("echo", number) for number in range(count)]


def fail(assignment: Assignment) -> Settlement:
    return Settlement(
        task_id=assignment.task_id,
        number=assignment.number,
        token=assignment.token,
        outcome=Outcome.FAILED,
    )


@each_fault
def test_a_session_is_opened_once(caller: Caller, fault: Fault) -> None:
    session = caller.under(fault, "open", lambda: caller.service.open_session(caller.command))
    assert [row.pk for row in WorkerSession.objects.all()] == [session.session_id] == [caller.session_id]


@each_fault
def test_a_session_is_extended(caller: Caller, fault: Fault) -> None:
    caller.open()
    before = WorkerSession.objects.get().expires_at
    session = caller.under(fault, "extend", lambda: caller.service.extend_session(caller.session_id))
    assert session.session_id == caller.session_id
    assert WorkerSession.objects.get().expires_at > before


@each_fault
def test_a_session_is_closed(caller: Caller, fault: Fault) -> None:
    caller.open()
    caller.under(fault, "close", lambda: caller.service.close_session(caller.session_id))
    assert WorkerSession.objects.get().closed_at is not None
    with pytest.raises(SessionExpired):
        caller.take()


@each_fault
def test_work_is_handed_out_once(remote: RemoteSite, caller: Caller, fault: Fault) -> None:
    tasks = submit(remote, 5)
    command = caller.open().next()
    taken = caller.under(fault, "acquire", lambda: caller.service.acquire(command))
    assert [one.task_id for one in taken.assignments] == [task.id for task in tasks[:3]]
    assert (Lease.objects.count(), DeliveryIntent.objects.count(), taken.lost) == (3, 2, ())


@each_fault
def test_ends_are_settled_and_work_is_handed_out_in_one_command(
    remote: RemoteSite, caller: Caller, fault: Fault
) -> None:
    tasks = submit(remote, 5)
    command = caller.open().next(*map(fail, caller.take()))
    reply: Acquired = caller.under(fault, "exchange", lambda: caller.service.acquire(command))
    assert [one.status for one in reply.settled] == [SettleStatus.ACCEPTED] * 3
    assert [one.task_id for one in reply.assignments] == [task.id for task in tasks[3:]]
    assert [task.state for task in tasks] == [State.FAILED] * 3 + [State.ACTIVE] * 2


@each_fault
def test_exactly_the_named_work_is_claimed_once(remote: RemoteSite, caller: Caller, fault: Fault) -> None:
    first, second, third = submit(remote)
    unknown = uuid4()
    command = Claim(
        session_id=caller.open().session_id,
        channel=2,
        sequence=1,
        dispatches=tuple(Dispatch(task_id=task, generation=1) for task in (third.id, unknown, first.id)),
        authorize=True,
    )
    reply: Claimed = caller.under(fault, "claim", lambda: caller.service.claim(command))
    assert [answer.status for answer in reply.answers] == ["claimed", "not_found", "claimed"]
    assert {one.task_id for one in reply.assignments} == {first.id, third.id}
    assert [task.state for task in (first, second, third)] == [State.ACTIVE, State.QUEUED, State.ACTIVE]
    assert [ends for task in (first, third) for ends in remote.ends(task)] == [(1, None)] * 2
    # The sequence is used once: the next one follows.
    [answer] = caller.service.claim(replace(command, sequence=2, dispatches=command.dispatches[:1])).answers
    assert answer.status == "already_handed_off"


@each_fault
def test_a_refused_message_is_recorded_once(remote: RemoteSite, caller: Caller, fault: Fault) -> None:
    submit(remote, 1)
    messages = [
        RefusedMessage(message_id=f"m{n}", reason="malformed", detail="no JSON", body="\0what") for n in range(3)
    ]
    session_id = caller.open().session_id
    caller.under(fault, "quarantine", lambda: caller.service.quarantine(session_id, QUEUE, messages))
    rows = QuarantinedMessage.objects.order_by("message_id")
    assert [(row.message_id, row.queue.name, row.body) for row in rows] == [
        (f"m{n}", QUEUE, "\\0what") for n in range(3)
    ]


@each_fault
def test_a_start_is_authorized(remote: RemoteSite, caller: Caller, fault: Fault) -> None:
    submit(remote)
    owners = OwnersBody(owners=tuple(one.owner for one in caller.open().take()))
    answer = caller.under(
        fault,
        "authorize",
        lambda: caller.service._call("POST", caller.session_id, "/authorize", owners, AuthorizationAnswers),
    )
    assert [one.is_granted for one in answer.authorizations] == [True] * 3


@each_fault
def test_leases_are_renewed(remote: RemoteSite, caller: Caller, fault: Fault) -> None:
    submit(remote)
    owners = [one.owner for one in caller.open().take()]
    before = Lease.objects.earliest("expires_at").expires_at

    def renew() -> list[RenewStatus]:
        statuses = [one.status for one in caller.service.renew(caller.session_id, owners)]
        # The other one of two at once holds the leases: a worker asks again.
        return renew() if RenewStatus.BUSY in statuses else statuses

    assert caller.under(fault, "renew", renew) == [RenewStatus.RENEWED] * 3
    assert Lease.objects.earliest("expires_at").expires_at > before


@each_fault
def test_ends_are_settled_once(remote: RemoteSite, caller: Caller, fault: Fault) -> None:
    tasks = submit(remote)
    settlements = [fail(one) for one in caller.open().take()]
    answers = caller.under(fault, "settle", lambda: caller.service.settle(caller.session_id, settlements))
    assert [one.status for one in answers] == [SettleStatus.ACCEPTED] * 3
    assert [remote.ends(task) for task in tasks] == [[(1, "failed")]] * 3


def test_ends_that_are_too_large_together_are_refused_with_nothing_settled(remote: RemoteSite, caller: Caller) -> None:
    submit(remote)
    # A batch counts the characters of its results, and these take three bytes each.
    result = '"' + "\u65e5" * (7 * 1024 * 1024 // 3) + '"'
    taken = caller.open().take()
    ends = [replace(fail(one), outcome=Outcome.SUCCEEDED, result=result) for one in taken]
    with closing(HttpTaskService(remote.server_url, remote.token)) as service:
        # Told at once and not as a doubt, which would be repeated for ever.
        with pytest.raises(InvalidInput, match=f"at most {limits.SETTLE_BYTES}"):
            service.settle(caller.session_id, ends)
        with pytest.raises(InvalidInput, match=f"at most {limits.SETTLE_BYTES}"):
            service.acquire(caller.next(*ends))
        # Nothing of them was settled. No program ran here, so what is told now is a failure.
        for one in taken:
            [answer] = service.settle(caller.session_id, [fail(one)])
            assert answer.status is SettleStatus.ACCEPTED


@each_fault
def test_work_is_given_back_once(remote: RemoteSite, caller: Caller, fault: Fault) -> None:
    tasks = submit(remote)
    owners = [one.owner for one in caller.open().take()]
    answers = caller.under(fault, "release", lambda: caller.service.release(caller.session_id, owners))
    assert [one.status for one in answers] == [SettleStatus.ACCEPTED] * 3
    assert [remote.ends(task) for task in tasks] == [[(1, "interrupted")]] * 3
    assert sorted(DeliveryIntent.objects.values_list("generation", "charged")) == [(2, 0)] * 3


@each_fault
def test_a_task_is_submitted_once(client: Client, http_proxy: HttpProxy, fault: Fault) -> None:
    http_proxy.inflict("tasks", fault)
    task = client.submit("plain-echo", 1, version="1", queue=QUEUE)
    assert [row.pk for row in Task.objects.all()] == [task.id]
    assert http_proxy.inflicted == [("tasks", fault)]


@each_fault
def test_a_batch_is_submitted_once(client: Client, http_proxy: HttpProxy, fault: Fault) -> None:
    http_proxy.inflict("batch", fault)
    tasks = client.submit_many([NewTaskBody(program="plain-echo", version="1", data=n, queue=QUEUE) for n in range(5)])
    assert sorted(row.pk for row in Task.objects.all()) == [task.id for task in tasks]
    assert http_proxy.inflicted == [("batch", fault)]


@each_fault
def test_a_task_is_cancelled_and_requeued_once(
    remote: RemoteSite, client: Client, http_proxy: HttpProxy, fault: Fault
) -> None:
    task = remote.submit("echo")
    http_proxy.inflict("cancel", fault)
    # A try whose answer was lost may have been the one.
    assert client.cancel(task.id).status in ("cancelled", "terminal")
    assert (task.state, remote.ends(task)) == (State.CANCELLED, [(1, "cancelled")])
    http_proxy.inflict("requeue", fault)
    assert client.requeue(task.id, revision=client.get(task.id).revision, reason="test").status == "requeued"
    assert task.state is State.QUEUED
    assert OperatorAction.objects.count() == 1
    assert http_proxy.inflicted == [("cancel", fault), ("requeue", fault)]
