"""One task in the foreground, whose program does what it can to lose its end."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import OperationalError, transaction

from ledgence import foreground
from ledgence.foreground import EndRefused, run_once
from ledgence.operations.renew import renew
from ledgence_worker import programs
from tests.faults.waiting import wait_until
from tests.ledger.actors import USING, assert_audit_clean, execute, outcomes_of, state_of, submit_task
from tests.ledger.rivals import Rival

pytestmark = pytest.mark.django_db(transaction=True)

NAME = "attacks.foreground"


@pytest.fixture
def run() -> Iterator[Callable[[Callable[[], Any]], Any]]:
    """Submit a task of a program that calls a function, run it, and return its id and what was said."""

    def submit_and_run(function: Callable[[], Any]) -> Any:
        programs.program(NAME, version="1")(lambda event: function())
        task = submit_task(program=NAME)
        return task, lambda: run_once(str(task), using=USING)

    yield submit_and_run
    programs._registry.pop((NAME, "1"), None)


def test_a_transaction_that_the_program_left_open_does_not_take_the_end_along(run):
    def leave_open() -> None:
        transaction.set_autocommit(False)
        execute("update ledgence_task set correlation_key = 'never committed'")

    task, once = run(leave_open)
    assert "outcome=succeeded consequence=succeeded" in once()
    with Rival() as rival:
        assert rival.execute("select outcome, correlation_key from ledgence_task") == [("succeeded", None)]
    assert outcomes_of(task) == ["succeeded"]


def test_an_end_that_comes_too_late_is_no_success(run):
    task, once = run(lambda: execute("update ledgence_lease set expires_at = clock_timestamp()"))
    with pytest.raises(EndRefused, match="late evidence"):
        once()
    assert state_of(task) == "active"
    assert execute("select late_outcome from ledgence_attempt") == [("succeeded",)]


def test_whoever_presses_ctrl_c_gives_the_work_back(run):
    def interrupt() -> None:
        raise KeyboardInterrupt

    task, once = run(interrupt)
    with pytest.raises(KeyboardInterrupt):
        once()
    assert outcomes_of(task) == ["interrupted"]
    assert state_of(task) == "queued"
    assert_audit_clean()


def test_a_renewal_that_fails_is_not_the_last(run, monkeypatch: pytest.MonkeyPatch, settings):
    settings.LEDGENCE = {"LEASE_SECONDS": 2}
    calls: list[Exception | None] = []

    def fail_first(*arguments: Any, **options: Any) -> Any:
        calls.append(None if calls else OperationalError("gone"))
        if calls[-1] is not None:
            raise calls[-1]
        return renew(*arguments, **options)

    monkeypatch.setattr(foreground, "renew", fail_first)
    _, once = run(lambda: wait_until(lambda: len(calls) > 1, "a second renewal"))
    assert "consequence=succeeded" in once()
