"""The view answers on the connection that Django manages: the project's other views find theirs as they left it."""

from typing import Any

import pytest
from django.db import connections
from django.test import Client

from ledgence.tokens import Role, issue
from tests.ledger.actors import USING, execute, submit_task


@pytest.mark.django_db
def test_the_view_leaves_django_its_connection(client: Client) -> None:
    before = connections[USING]
    plans = execute("show enable_seqscan")
    _, token = issue(name="t", roles=[Role.SUBMIT], tenant="default", namespace="default", using=USING)
    task = submit_task()
    reply: Any = client.get(f"/ledgence/v1/tasks/{task}", headers={"authorization": f"Bearer {token}"})
    assert reply.status_code == 200, reply.content
    assert reply.json()["state"] == "queued"
    assert connections[USING] is before
    assert execute("show enable_seqscan") == plans


def test_the_view_runs_in_no_transaction_of_the_request() -> None:
    from ledgence.http.views import answer

    assert USING in getattr(answer, "_non_atomic_requests", set())
