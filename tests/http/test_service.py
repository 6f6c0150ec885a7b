"""The task service's own tests once more, with the client that remote workers have: the same functions."""

from collections.abc import Iterator
from uuid import UUID

import pytest

from ledgence.tokens import Role, issue
from ledgence_worker.http_service import HttpTaskService
from tests.http.servers import Server
from tests.ledger import test_service
from tests.ledger.actors import USING, submit_tasks

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]

#: Every test of what callers see; the others look at the connection of this process.
SEEN = (
    "settles_and_acquires_in_one_command_and_repeats_both",
    "a_lock_that_is_not_free_is_busy_and_the_connection_goes_on",
    "an_order_that_is_broken_settles_nothing",
    "a_closed_session_acquires_nothing_and_settles_what_it_has",
    "late_ends_and_owners_that_do_not_exist_are_told_apart",
    "a_wait_ends_with_an_interruption_and_its_empty_answer_is_recorded",
    "rows_are_committed_when_the_call_returns",
)
globals().update({f"test_{name}": getattr(test_service, f"test_{name}") for name in SEEN})

session = test_service.session


@pytest.fixture
def service(server: Server, transactional_db: None) -> Iterator[HttpTaskService]:
    _, token = issue(name="tests", roles=[Role.WORK], tenant="default", namespace="default", using=USING)
    made = HttpTaskService(server.url, token)
    yield made
    made.interrupt()
    made.close()


def test_whether_work_is_left_is_told(service: HttpTaskService, session: UUID) -> None:
    assert service.is_drained(session)
    submit_tasks(1)
    assert not service.is_drained(session)
