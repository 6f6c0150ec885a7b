"""Housekeeping inside the task service: where all workers are remote, somebody must end what they leave."""

import pytest
from django.db import connection

from tests.conftest import address_of
from tests.faults.waiting import wait_until
from tests.http.servers import serving
from tests.ledger.actors import Worker, expire_leases, outcomes_of, submit_task

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]


def test_a_lease_that_is_over_is_ended_by_the_server() -> None:
    task = submit_task()
    Worker().acquire_one()
    expire_leases()
    with serving(address_of(connection), environment={"LEDGENCE_HOUSEKEEPING": "on"}):
        wait_until(lambda: outcomes_of(task) == ["lost"], "the server to end the lease")
