"""The ledger's own tests of submission, cancel and requeue once more, by a client over HTTP: the same functions."""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any
from uuid import UUID

import pytest

from ledgence.handle import TaskHandle
from ledgence.new_task import NewTask
from ledgence.operations.actions import Operator
from ledgence.operations.cancel import CancelStatus
from ledgence.tokens import Role, issue
from ledgence_worker.client import Client
from ledgence_worker.errors import NotFound
from tests.http.servers import Server
from tests.http.test_ledger import OWN, body_of
from tests.ledger.actors import USING, Worker
from tests.ledger.operations import test_cancel, test_operate, test_submit

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]

#: What belongs to a caller who has the database: a transaction, another connection, a program that is registered.
IN_PROCESS = ("atomic()", "Rival(", "registered(", "BATCH", "make_ids(", "cancel_module")
ONE_TASK = "a request names one task"
OWN_TEXT = "the refusal is the wire's; test_bad_requests.py has the table"
EXCLUDED = {
    "test_every_task_is_answered_once_however_often_it_is_named": ONE_TASK,
    "test_a_task_that_is_not_over_is_left_alone": ONE_TASK,
    "test_every_row_is_answered_by_itself": ONE_TASK,
    "test_an_identifier_has_1_to_128_bytes_of_printable_text": OWN_TEXT,
    "test_a_key_has_1_to_255_bytes_of_printable_text": OWN_TEXT,
    "test_impossible_terms_are_refused": OWN_TEXT,
    "test_a_naive_run_after_is_refused": OWN_TEXT,
}


def of_callers(members: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the tests that need nothing but what a caller sends, by name."""
    return {
        name: function
        for name, function in members
        if name.startswith("test_") and name not in EXCLUDED and is_of_callers(function)
    }


def is_of_callers(function: Any) -> bool:
    source = inspect.getsource(function)
    return not inspect.signature(function).parameters.keys() & OWN and not any(word in source for word in IN_PROCESS)


for module in (test_submit, test_cancel):
    globals().update(of_callers(inspect.getmembers(module, inspect.isfunction)))
TestRequeue = type("TestRequeue", (), of_callers(inspect.getmembers(test_operate.TestRequeue, inspect.isfunction)))


class Application:
    """Asks the task service for what the tests ask of the operations, with a token for each tenant and namespace."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self._url = url
        self._stack = stack
        self._clients: dict[tuple[str, str], Client] = {}

    def client(self, tenant: str = "default", namespace: str = "default") -> Client:
        scope = tenant, namespace
        if scope not in self._clients:
            roles = [Role.SUBMIT, Role.OPERATE]
            _, token = issue(name="tests", roles=roles, tenant=tenant, namespace=namespace, using=USING)
            self._clients[scope] = self._stack.enter_context(Client(self._url, token))
        return self._clients[scope]

    def submit(self, program: str, data: Any = None, **options: Any) -> TaskHandle:
        return self.submit_many([NewTask(program=program, data=data, **options)])[0]

    def submit_many(self, tasks: Iterable[NewTask]) -> list[TaskHandle]:
        tasks = list(tasks)
        scope = (tasks[0].tenant or "default", tasks[0].namespace or "default") if tasks else ("default", "default")
        answers = self.client(*scope).submit_many(map(body_of, tasks))
        return [TaskHandle(id=answer.id, using=USING, is_new=answer.is_new) for answer in answers]

    def cancel(self, tasks: Iterable[UUID], *, using: str) -> dict[UUID, CancelStatus]:
        return {task: self._cancel(task) for task in tasks}

    def _cancel(self, task: UUID) -> CancelStatus:
        try:
            return CancelStatus(self.client().cancel(task).status)
        except NotFound:
            return CancelStatus.NOT_FOUND

    def requeue(self, tasks: Mapping[UUID, int], operator: Operator, *, using: str) -> dict[str, str]:
        return {
            str(task): self.client()
            .requeue(task, revision=revision, reason=operator.reason, action_id=operator.action_id)
            .status
            for task, revision in tasks.items()
        }


@pytest.fixture(autouse=True)
def over_http(server: Server, transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with ExitStack() as stack:
        application = Application(server.url, stack)
        for module, names in ((test_submit, ("submit", "submit_many")), (test_cancel, ("cancel",))):
            for name in names:
                monkeypatch.setattr(module, name, getattr(application, name))
        monkeypatch.setattr(test_operate, "requeue", application.requeue)
        yield


@pytest.fixture
def worker(over_http: None) -> Worker:
    return Worker()


nothing_is_written = test_submit.nothing_is_written


def test_these_are_most_of_what_callers_ask() -> None:
    modules = (test_submit, test_cancel)
    found = [of_callers(inspect.getmembers(module, inspect.isfunction)) for module in modules]
    assert sum(map(len, found)) > 25
    names = {name for module in (*modules, test_operate.TestRequeue) for name in vars(module)}
    assert EXCLUDED.keys() <= names
