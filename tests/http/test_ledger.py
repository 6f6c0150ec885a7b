"""The ledger's own tests once more, with workers that reach it over HTTP: the same functions, another transport."""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest

from ledgence.new_task import NewTask
from ledgence.operations.authorize import Authorization
from ledgence.operations.due import DueSearch
from ledgence.tokens import Role, issue
from ledgence_worker.bodies import AuthorizationAnswers, NewTaskBody, OwnersBody
from ledgence_worker.client import Client
from ledgence_worker.http_service import HttpTaskService
from ledgence_worker.programs import Unset
from ledgence_worker.protocol import Acquire, Acquired, OpenSession, Owner
from tests.http.servers import Server
from tests.ledger.actors import USING, Worker, submitter, transport
from tests.ledger.operations import (
    test_acquire,
    test_authorize,
    test_cancel,
    test_claim,
    test_expire,
    test_renew,
    test_retry,
    test_sessions,
    test_settle,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]

MODULES = (
    test_acquire,
    test_authorize,
    test_cancel,
    test_claim,
    test_expire,
    test_renew,
    test_retry,
    test_sessions,
    test_settle,
)
#: Fixtures that change this process or the test's own connection, of which the server knows nothing.
OWN = {"clock", "monkeypatch", "now", "settings"}
#: What cannot be asked over HTTP.
RIVAL = "its worker acts on the connection of a rival"
EXCLUDED = {
    "test_acquire.test_a_repeat_of_a_command_that_was_rolled_back_is_carried_out": RIVAL,
    "test_acquire.test_a_repeat_that_comes_while_the_command_runs_waits_and_gets_its_answer": RIVAL,
    "test_authorize.test_a_cancel_request_that_commits_while_it_waits_refuses_it": RIVAL,
    "test_authorize.test_a_lease_that_expires_while_its_row_is_waited_for_refuses_it": RIVAL,
    "test_cancel.test_a_task_that_is_claimed_meanwhile_is_asked": RIVAL,
    "test_cancel.test_a_task_that_is_retried_meanwhile_is_found_in_another_round": RIVAL,
    "test_claim.test_of_two_that_claim_one_generation_the_second_learns_it_is_handed_off": RIVAL,
    "test_sessions.test_two_processes_with_one_new_catalogue_open_both": RIVAL,
    "test_settle.test_a_lease_that_expires_while_its_row_is_waited_for_is_lost": RIVAL,
    "test_settle.test_a_settlement_that_waits_for_expiry_is_late": RIVAL,
    "test_acquire.test_work_given_back_in_the_same_commit_can_be_taken_again": "a worker's batch looks at one moment",
    "test_acquire.test_without_recording_an_empty_reply_consumes_nothing": "the service decides when a wait is over",
    "test_settle.test_settling_in_a_callers_transaction_stands_and_falls_with_it": "no caller has a transaction there",
}


def over_http() -> dict[str, Any]:
    """Return the tests whose workers act as workers do, by name."""
    found = {}
    for module in MODULES:
        short = module.__name__.rpartition(".")[2]
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("test_") and f"{short}.{name}" not in EXCLUDED and is_of_a_worker(function):
                found[f"{short}_{name.removeprefix('test_')}"] = function
    return found


def is_of_a_worker(function: Any) -> bool:
    parameters = inspect.signature(function).parameters.keys()
    return not parameters & OWN and ("worker" in parameters or "Worker(" in inspect.getsource(function))


globals().update(over_http())


class OverHttp(HttpTaskService):
    """What the tests' workers ask of the ledger, asked as a worker process does."""

    def acquire(self, command: Acquire, search: DueSearch, *, record_empty: bool) -> Acquired:  # type: ignore[override]
        # How long it took is not what these tests are about.
        return replace(super().acquire(command), held_seconds=0.0)

    def authorize(self, session_id: UUID, owners: Sequence[Owner]) -> list[Authorization]:
        body = OwnersBody(owners=tuple(owners))
        answers = self._call("POST", session_id, "/authorize", body, AuthorizationAnswers).authorizations
        return [
            Authorization(owner=owner, is_granted=answer.is_granted, timeout_seconds=answer.timeout_seconds)
            for owner, answer in zip(owners, answers, strict=True)
        ]


class ByTenant:
    """Has a token for each tenant and namespace: a request's scope is its token's, whatever its session says."""

    def __init__(self, server: Server) -> None:
        self._url = server.url
        self._services: dict[tuple[str, str], OverHttp] = {}

    def __call__(self, using: str) -> "Scoped":
        return Scoped(self)

    def service(self, tenant: str, namespace: str) -> OverHttp:
        if (tenant, namespace) not in self._services:
            _, token = issue(name="tests", roles=[Role.WORK], tenant=tenant, namespace=namespace, using=USING)
            self._services[tenant, namespace] = OverHttp(self._url, token)
        return self._services[tenant, namespace]

    def close(self) -> None:
        for service in self._services.values():
            service.close()


class Scoped:
    """A worker's way to the ledger: its session's opening tells which token it has."""

    def __init__(self, services: ByTenant) -> None:
        self._services = services

    def open_session(self, command: OpenSession) -> object:
        self._service = self._services.service(command.tenant, command.namespace)
        return self._service.open_session(command)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)


class Submitter:
    """Submits as an application does that has a token."""

    def __init__(self, server: Server) -> None:
        self._url = server.url

    def __call__(self, tasks: Sequence[NewTask], using: str) -> list[UUID]:
        tenant, namespace = tasks[0].tenant or "default", tasks[0].namespace or "default"
        _, token = issue(name="tests", roles=[Role.SUBMIT], tenant=tenant, namespace=namespace, using=using)
        with Client(self._url, token) as client:
            return [submitted.id for submitted in client.submit_many(map(body_of, tasks))]


def body_of(task: NewTask) -> NewTaskBody:
    assert isinstance(task.program, str)
    retry_on = task.retry_on if isinstance(task.retry_on, Unset) else tuple(map(word_of, task.retry_on))
    own = {field.name for field in fields(NewTaskBody)} - {"program", "retry_on"}
    return NewTaskBody(program=task.program, retry_on=retry_on, **{name: getattr(task, name) for name in own})


def word_of(what: Any) -> str:
    return what if isinstance(what, str) else f"{what.__module__}.{what.__qualname__}"


@pytest.fixture(autouse=True)
def by_http(server: Server, transactional_db: None) -> Iterator[None]:
    services = ByTenant(server)
    before = transport.set(services), submitter.set(Submitter(server))
    yield
    services.close()
    transport.reset(before[0])
    submitter.reset(before[1])


@pytest.fixture
def worker(by_http: None) -> Worker:
    return Worker()


external = test_claim.external


def test_these_are_most_of_the_ledgers_tests() -> None:
    assert len(over_http()) > 60
    for name in EXCLUDED:
        module, _, function = name.partition(".")
        found: ModuleType = next(one for one in MODULES if one.__name__.endswith(module))
        assert hasattr(found, function), name
