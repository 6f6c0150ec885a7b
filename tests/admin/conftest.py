"""Fixtures of the admin's tests: who looks, and a ledger with something of everything."""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from ledgence.models import (
    ApiToken,
    Attempt,
    OperatorAction,
    Program,
    Publisher,
    QuarantinedMessage,
    Queue,
    WorkerSession,
)
from ledgence.operations.operate import requeue
from ledgence.operations.quarantine import quarantine
from ledgence.tokens import issue
from ledgence_worker.claims import RefusedMessage
from ledgence_worker.protocol import Outcome
from tests.ledger.actors import PROGRAM, USING, Worker, operator, raised, submit_task

VIEWED = (
    "task",
    "attempt",
    "lease",
    "deliveryintent",
    "workersession",
    "queue",
    "program",
    "publisher",
    "quarantinedmessage",
    "operatoraction",
    "apitoken",
)
OPERATIONS = (
    "requeue_task",
    "cancel_task",
    "run_task",
    "move_task",
    "prioritize_task",
    "drain_workersession",
    "bulk_operatoraction",
    "republish_deliveryintent",
    "expire_lease",
    "pause_queue",
    "add_apitoken",
    "revoke_apitoken",
)


def make_client(*codenames: str) -> Client:
    """Sign a member of staff in who holds exactly these permissions."""
    user = User.objects.create_user(f"staff-{uuid4().hex[:8]}", is_staff=True)
    permissions = Permission.objects.filter(content_type__app_label="ledgence", codename__in=codenames)
    assert len(permissions) == len(codenames)
    user.user_permissions.set(permissions)
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def staff(db: None) -> Callable[..., Client]:
    return make_client


@pytest.fixture
def viewer(db: None) -> Client:
    """Sees everything, may do nothing."""
    return make_client(*(f"view_{model}" for model in VIEWED))


@pytest.fixture
def op(db: None) -> Client:
    """Sees everything, may do everything."""
    return make_client(*(f"view_{model}" for model in VIEWED), *OPERATIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """One task in each state, and the worker who held them."""

    queued: UUID
    active: UUID
    succeeded: UUID
    failed: UUID
    cancelled: UUID
    requeued: UUID
    worker: Worker

    @property
    def queue(self) -> Queue:
        return Queue.objects.get(name="default")

    @property
    def action(self) -> OperatorAction:
        return OperatorAction.objects.get(kind="requeue", reason="fixed the data")

    @property
    def token(self) -> ApiToken:
        return ApiToken.objects.get()

    @property
    def session(self) -> WorkerSession:
        return WorkerSession.objects.get(pk=self.worker.session_id)

    @property
    def program(self) -> Program:
        return Program.objects.get(name=PROGRAM)

    @property
    def publisher(self) -> Publisher:
        return Publisher.objects.get()

    @property
    def quarantined(self) -> QuarantinedMessage:
        return QuarantinedMessage.objects.get()

    def attempt(self, task: UUID) -> Attempt:
        return Attempt.objects.get(task=task, number=1)


@pytest.fixture
def ledger(db: None) -> Ledger:
    from ledgence.operations.cancel import cancel

    worker = Worker()

    def run(outcome: Outcome, **report: object) -> UUID:
        task = submit_task(data={"n": 1}, correlation_key="order-7", max_attempts=1)
        worker.settle(worker.acquire_one(), outcome, result='{"hash": "abc"}', **report)
        return task

    succeeded = run(Outcome.SUCCEEDED)
    failed = run(Outcome.FAILED, error=raised("builtins.ValueError", message="bad input"), output="printed")
    requeued = run(Outcome.CRASHED, exit_status=-9)
    requeue({requeued: 1}, operator("fixed the data"), using=USING)
    cancelled = submit_task(run_after=None, priority=-5)
    cancel([cancelled], using=USING)
    active = submit_task(priority=5)
    worker.acquire_one()
    queued = submit_task(priority=-1)
    issue(name="laptop", roles=["work"], tenant="default", namespace="default", using=USING)
    now, queue = timezone.now(), Queue.objects.get(name="default")
    Publisher.objects.create(
        id=uuid4(), queue=queue, host="mill", pid=7, version="1", started_at=now, turned_at=now, failure="no route"
    )
    message = RefusedMessage(message_id="m-1", reason="malformed", detail="not JSON", body="<hello>")
    quarantine(worker.session_id, "default", [message], using=USING)
    return Ledger(
        queued=queued,
        active=active,
        succeeded=succeeded,
        failed=failed,
        cancelled=cancelled,
        requeued=requeued,
        worker=worker,
    )
