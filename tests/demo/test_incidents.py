"""The admin's demonstration has an example of every trouble, and its command serves it and clears it away."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from django.db import connection
from django.db.models import F

from ledgence.admin.overview import find_overview
from ledgence.audit import audit
from ledgence.explanation import explain
from ledgence.models import Attempt, DeliveryIntent, Task
from ledgence_project.demo.incidents import Incidents
from tests.admin.test_overview import INDEX
from tests.faults.waiting import wait_until
from tests.ledger.actors import USING
from tests.servers import free_port

MANAGE = Path(__file__).resolve().parents[2] / "manage.py"


@pytest.mark.django_db(transaction=True)
def test_every_card_of_the_overview_has_something_to_show() -> None:
    incidents = Incidents(USING)
    incidents.make()
    overview = find_overview()
    assert [card.label for card in overview.cards if not card.is_alarm] == []
    assert [storm.line.queue.name for storm in overview.storms] == ["sync"]
    assert {error.error for error in overview.errors} == {"SMTPRecipientsRefused", "ConnectionError", "crashed"}
    assert all(one.path for chart in overview.charts for one in chart.series)


@pytest.mark.django_db(transaction=True)
def test_the_ledger_is_sound_but_for_what_the_lost_publisher_left() -> None:
    incidents = Incidents(USING)
    incidents.make()
    assert {violation.invariant for violation in audit(using=USING)} <= {"external_intent_is_delivered"}


@pytest.mark.django_db(transaction=True)
def test_nothing_happened_before_it_was_submitted_and_every_refusal_has_its_reason() -> None:
    Incidents(USING).make()
    assert not DeliveryIntent.objects.filter(available_at__lt=F("task__submitted_at")).exists()
    assert not DeliveryIntent.objects.filter(first_published_at__lt=F("task__submitted_at")).exists()
    assert not Attempt.objects.filter(claimed_at__lt=F("task__submitted_at")).exists()
    refused = DeliveryIntent.objects.filter(refusals__gt=0).values_list("pk", flat=True)
    assert refused
    for task in refused:
        told = [line.text for line in explain(task, using=USING).lines if line.code == "refused"]
        assert "3 times in a row (AccessDenied: not authorized" in told[0]


@pytest.mark.django_db(transaction=True)
def test_live_workers_go_on() -> None:
    incidents = Incidents(USING)
    incidents.make()
    before = Task.objects.filter(outcome="succeeded").count()
    incidents.play()
    assert Task.objects.filter(outcome="succeeded").count() == before + 1


@pytest.mark.process
@pytest.mark.slow
def test_the_command_serves_it_to_whom_it_names_and_clears_it_away(database_url: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, str(MANAGE), "ledgence_demo_admin", "--address", address]
    with log.open("wb") as file:
        environment = os.environ | {"DATABASE_URL": database_url, "DEBUG": "true", "PYTHONUNBUFFERED": "1"}
        demo = subprocess.Popen(command, env=environment, stdout=file, stderr=file)
    try:
        wait_until(
            lambda: "stop it with" in log.read_text() or demo.poll() is not None, "the demonstration to be ready"
        )
        printed = log.read_text()
        [password] = re.findall(r"^password  (\S+)$", printed, re.MULTILINE)
        assert f"http://{address}{INDEX}" in printed
        assert "No process does the housekeeping" in sign_in(f"http://{address}", password)
    finally:
        demo.send_signal(signal.SIGTERM)
    assert demo.wait(30) == 0, log.read_text()
    with connection.cursor() as cursor:
        cursor.execute("select count(*) from pg_database where datname = %s", [f"ledgence_bench_{demo.pid}"])
        assert cursor.fetchone() == (0,)


def sign_in(site: str, password: str) -> str:
    """Sign in as the one who was named, and return the overview."""
    with httpx.Client(base_url=site, follow_redirects=True, trust_env=False, timeout=30) as client:
        wait_until(lambda: answers(client), "the server to answer")
        client.get(INDEX)
        form = {"username": "admin", "password": password, "next": INDEX}
        form["csrfmiddlewaretoken"] = client.cookies["csrftoken"]
        return client.post("/admin/login/", data=form).text


def answers(client: httpx.Client) -> bool:
    try:
        return client.get(INDEX).status_code == 200
    except httpx.TransportError:
        return False
