"""The hints that concern a session."""

import pytest

from ledgence.hints import CANCEL, EVERYTHING
from ledgence.models import Queue
from ledgence.served_queues import ServedQueues
from tests.ledger.actors import USING, Worker, submit_task

pytestmark = pytest.mark.django_db


@pytest.fixture
def queues():
    submit_task(queue="own")
    submit_task(queue="foreign")
    return {queue.name: str(queue.pk) for queue in Queue.objects.all()}


@pytest.fixture
def served(queues) -> ServedQueues:
    made = ServedQueues(USING)
    made.refresh(Worker(queues=("own",)).session_id)
    return made


def test_its_own_queue_concerns_it_and_another_does_not(served, queues):
    assert served.concern({queues["own"]})
    assert served.concern({queues["own"], queues["foreign"], CANCEL})
    assert not served.concern({queues["foreign"]})
    assert not served.concern({CANCEL})


def test_a_hint_that_names_no_queue_concerns_everyone(served):
    assert served.concern({EVERYTHING})


def test_a_queue_that_is_new_concerns_it_until_it_has_looked(served):
    worker = Worker(queues=("own",))
    submit_task(queue="later")
    new = {str(Queue.objects.get(name="later").pk)}
    assert served.concern(new)
    served.refresh(worker.session_id)
    assert not served.concern(new)


def test_everything_concerns_it_before_the_first_look(queues):
    assert ServedQueues(USING).concern({queues["foreign"]})
