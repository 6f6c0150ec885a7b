"""A task's page: why it is not running first, then its timeline, attempts and deliveries."""

import re
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ledgence.admin.timeline import ROWS_MAX
from ledgence.models import Attempt
from ledgence.operations.queues import pause
from ledgence.operations.routes import QueueName, activate
from ledgence_worker.protocol import ErrorReport, Outcome
from tests.admin.conftest import Ledger
from tests.admin.test_pages import page_of, shown
from tests.ledger.actors import USING, Worker, execute, expire_leases, operator, submit_task, submit_tasks

pytestmark = pytest.mark.django_db

QUERIES_MAX = 12


def page(client: Client, task: UUID) -> str:
    """Return a task's page, which takes a bounded number of statements."""
    address = page_of("task", "change", task)
    # What a process asks once.
    shown(client, address)
    with CaptureQueriesContext(connection) as captured:
        text = shown(client, address)
    assert len(captured) <= QUERIES_MAX, "\n".join(query["sql"][:150] for query in captured)
    return text


def external_task() -> UUID:
    """Submit a task of an external queue, whose only worker is busy, after work that comes first."""
    activate({QueueName(tenant="default", namespace="default", queue="mail"): "arn:mail"}, operator(), using=USING)
    Worker(queues=("mail",))
    submit_tasks(2, queue="mail", priority=4)
    task = submit_task(queue="mail")
    execute(
        "insert into ledgence_deliveryevent (task_id, generation, kind, epoch, detail, happened_at) "
        "values (%s, 1, 'refused', 1, %s::json, now())",
        [task, '{"reason": "too large\\u202e"}'],
    )
    execute("update ledgence_deliveryintent set refusals = 1, publications = 1 where task_id = %s", [task])
    return task


def test_every_page_answers_in_a_dozen_statements(ledger: Ledger, op: Client, viewer: Client) -> None:
    external = external_task()
    for client in (op, viewer):
        for task in (ledger.queued, ledger.active, ledger.succeeded, ledger.failed, ledger.cancelled, ledger.requeued):
            page(client, task)
        page(client, external)


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("queued", "Why is it not running?"),
        ("active", "Who runs it?"),
        ("succeeded", "How did it end?"),
        ("failed", "How did it end?"),
        ("cancelled", "How did it end?"),
    ],
)
def test_the_explanation_comes_first_then_the_timeline_and_the_attempts(
    name: str, question: str, ledger: Ledger, viewer: Client
) -> None:
    text = page(viewer, getattr(ledger, name))
    headings = re.findall(r"<h2[^>]*>\s*(.*?)\s*</h2>", text.split('id="content"')[1])
    assert headings[1:4] == [question, "Timeline", "Attempts"]


def test_a_line_leads_to_its_row_and_says_what_to_do(ledger: Ledger, viewer: Client) -> None:
    queue = ledger.queue
    pause([queue.pk], operator("the disk is full"), using=USING)
    text = page(viewer, ledger.queued)
    assert "because “the disk is full”." in text
    assert f'<a href="{page_of("queue", "change", queue.pk)}">queue default</a>' in text
    assert "Ask them, or resume the queue when the reason is gone." in text
    assert text.count("holds it up") == 1


def test_a_link_is_shown_only_to_those_who_may_follow_it(ledger: Ledger, staff) -> None:
    pause([ledger.queue.pk], operator(), using=USING)
    explanation = page(staff("view_task"), ledger.queued).split("<h2")[2].split("</section>")[0]
    assert "is paused" in explanation
    assert "queue default</a>" not in explanation


def test_work_that_nobody_can_run_leads_to_the_workers(ledger: Ledger, viewer: Client) -> None:
    text = page(viewer, submit_task(program="tests.unknown"))
    assert f'<a href="{page_of("workersession")}">worker sessions</a>' in text


def test_the_timeline_is_an_image_with_a_name_and_no_styles_of_its_own(ledger: Ledger, viewer: Client) -> None:
    text = page(viewer, ledger.requeued)
    drawing = text.split('class="ledgence-timeline"')[1].split("</svg>")[0]
    assert 'role="img" aria-labelledby="ledgence-timeline-title ledgence-timeline-description"' in drawing
    assert re.search(r'<title id="ledgence-timeline-title">Attempts from 20[\d: -]+UTC to now</title>', drawing)
    assert '<desc id="ledgence-timeline-description">1 attempt: 1 × crashed. Each is described below.</desc>' in drawing
    assert (drawing.count("<rect"), drawing.count("<g ")) == (1, 2)
    assert "style=" not in text.split('id="content"')[1]
    assert "#2 waits, due for" in drawing


def test_of_many_attempts_the_newest_are_drawn(ledger: Ledger, viewer: Client) -> None:
    execute(
        "insert into ledgence_attempt (task_id, number, cause, outcome, finished_at, delivery_mode, available_at) "
        "select %s, n, 'crashed', 'cancelled', now(), 'integrated', now() from generate_series(2, 80) n",
        [ledger.failed],
    )
    text = page(viewer, ledger.failed)
    drawing = text.split('class="ledgence-timeline"')[1].split("</svg>")[0]
    assert drawing.count("<rect") == drawing.count("<text") == ROWS_MAX
    assert f"{80 - ROWS_MAX} older attempts are not drawn." in text


def test_an_attempt_whose_lease_is_over_says_so(ledger: Ledger, viewer: Client) -> None:
    expire_leases(ledger.active)
    text = page(viewer, ledger.active)
    assert 'class="ledgence-over"' in text and "lease over for" in text
    assert 'ledgence-badge ledgence-active"' not in text.split('id="content"')[1]
    attempt = Attempt.objects.get(task_id=ledger.active, outcome=None)
    story = shown(viewer, page_of("attempt", "change", attempt.pk))
    assert '<span class="ledgence-badge ledgence-warning">lease expired</span>' in story


def test_an_attempt_tells_its_cause_its_times_and_the_applications_frames(ledger: Ledger, viewer: Client) -> None:
    own = '  File "/srv/shop/mail.py", line 4, in send\n    deliver(message)\n'
    foreign = '  File "/x/site-packages/gateway.py", line 9, in deliver\n    raise Refused\n'
    error = ErrorReport(classes=("gateway.Refused",), message="no", traceback=f"Traceback:\n{own}{foreign}Refused: no")
    task = submit_task(priority=90, max_attempts=1)
    ledger.worker.settle(ledger.worker.acquire_one(), Outcome.FAILED, error=error, output="connecting")
    text = page(viewer, task)
    [block] = re.findall(r"(?s)<h4>Traceback</h4>\s*(.*?)\s*</div>", text)
    shown_first, unfolded = block.split("<details>")
    assert "mail.py" in shown_first and "gateway.py" not in shown_first
    assert "gateway.py" in unfolded
    assert "<dd>submitted</dd>" in text
    for label in ("Waited for a worker", "Held for", "Claimed", "Finished"):
        assert f"<dt>{label}</dt>" in text
    assert "connecting" in text
    assert "<dt>Destination</dt>" not in text


def test_an_exit_status_is_explained_where_it_is_shown(ledger: Ledger, viewer: Client) -> None:
    task = submit_task(priority=90, max_attempts=1)
    ledger.worker.settle(ledger.worker.acquire_one(), Outcome.CRASHED, exit_status=-9)
    text = page(viewer, task)
    assert "attempt 1 crashed with exit status -9 (SIGKILL)" in text
    [block] = re.findall(r"(?s)<h4>Exit status of the process</h4>\s*(.*?)\s*</div>", text)
    assert block.startswith("<p>-9 (SIGKILL): killed by SIGKILL;") and "(dmesg, journalctl -k) on localhost." in block
    [headline] = re.findall(r"<strong>#1</strong>(.*?)</summary>", text)
    assert "exit status -9 (SIGKILL)" in headline


def test_causes_are_told_in_words(ledger: Ledger, viewer: Client) -> None:
    task = submit_task(priority=90)
    for outcome in (Outcome.CRASHED, Outcome.FAILED):
        execute("update ledgence_deliveryintent set available_at = now() where task_id = %s", [task])
        ledger.worker.settle(ledger.worker.acquire_one(), outcome)
    assert "<dd>the attempt before crashed</dd>" in page(viewer, task)
    requeued = ledger.requeued
    ledger.worker.acquire_one()
    assert "<dd>requeued by an operator</dd>" in page(viewer, requeued)


def test_the_delivery_of_external_work_is_told(ledger: Ledger, viewer: Client) -> None:
    text = page(viewer, external_task())
    assert '<h2 id="ledgence-publication">Delivery</h2>' in text
    for label, value in (("Destination", "arn:mail"), ("Announced", "1"), ("Refused in a row", "1")):
        assert f"<dt>{label}</dt><dd>{value}</dd>" in text
    assert "<td>too large\\u202e</td>" in text
    assert "Delivery</h2>" not in page(viewer, ledger.queued)


def test_a_page_of_a_task_that_goes_while_it_is_looked_at_says_so(ledger: Ledger, viewer: Client, monkeypatch) -> None:
    from ledgence.admin import task as module
    from ledgence_worker.errors import NotFound

    def gone(*_: object, **__: object) -> None:
        raise NotFound("gone")

    monkeypatch.setattr(module, "find_facts", gone)
    response = viewer.get(page_of("task", "change", ledger.failed), follow=True)
    assert "doesn’t exist" in response.content.decode()
