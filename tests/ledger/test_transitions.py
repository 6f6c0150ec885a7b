"""How an operation runs: atomic, bounded in its waits, and leaving a caller's transaction as it was."""

import pytest
from django.db import DataError, OperationalError, connection, transaction

from ledgence.transitions import transition
from ledgence_worker.errors import Busy
from tests.ledger.actors import USING, execute, submit_task
from tests.ledger.rivals import Rival

pytestmark = pytest.mark.django_db(transaction=True)

DEADLOCK = "do $$ begin raise exception 'two' using errcode = '40P01'; end $$"


def test_a_wait_is_bounded_and_the_bound_ends_with_the_transaction(settings):
    settings.LEDGENCE = {"LOCK_TIMEOUT_SECONDS": 1.5}
    with transition(USING, what="test"):
        assert execute("show lock_timeout") == [("1500ms",)]
    assert execute("show lock_timeout") == [("0",)]


def test_the_shortest_wait_that_can_be_set_is_not_endless(settings):
    settings.LEDGENCE = {"LOCK_TIMEOUT_SECONDS": 0.001}
    with transition(USING, what="test"):
        assert execute("show lock_timeout") == [("1ms",)]


def test_inside_a_callers_transaction_its_own_bound_comes_back():
    with transaction.atomic():
        execute("set local lock_timeout = '7s'")
        with transition(USING, what="test"):
            assert execute("show lock_timeout") == [("1s",)]
        assert execute("show lock_timeout") == [("7s",)]
        with pytest.raises(ZeroDivisionError), transition(USING, what="test"):
            raise ZeroDivisionError
        assert execute("show lock_timeout") == [("7s",)]
    assert execute("show lock_timeout") == [("0",)]


def test_a_failure_undoes_the_block_and_leaves_the_callers_transaction_usable():
    with transaction.atomic():
        kept = submit_task()
        with pytest.raises(ZeroDivisionError), transition(USING, what="test"):
            submit_task()
            raise ZeroDivisionError
        assert execute("select id from ledgence_task") == [(kept,)]
    assert not connection.in_atomic_block


@pytest.mark.parametrize("code", ["40P01", "55P03", "40001"])
def test_a_lost_race_is_busy_with_its_cause(code):
    with transaction.atomic():
        with pytest.raises(Busy, match="test: another transaction holds") as busy, transition(USING, what="test"):
            execute(DEADLOCK.replace("40P01", code))
        assert isinstance(busy.value.__cause__, OperationalError)
        assert execute("select 1") == [(1,)]


def test_another_error_of_the_database_stays_what_it_is():
    with pytest.raises(DataError), transition(USING, what="test"):
        execute("select 1/0")


def test_a_lock_that_stays_held_is_busy(settings):
    settings.LEDGENCE = {"LOCK_TIMEOUT_SECONDS": 0.05}
    submit_task()
    with Rival() as rival, rival.transaction():
        rival.execute("select 1 from ledgence_task for update")
        with pytest.raises(Busy), transition(USING, what="test"):
            execute("select 1 from ledgence_task for update")
