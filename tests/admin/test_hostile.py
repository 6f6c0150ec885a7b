"""Whatever programs, submitters and operators wrote stands on the pages as text: it runs nothing and breaks nothing."""

import json
import re

import pytest
from django.test import Client

from ledgence.admin.display import SHOWN, indented, text_block
from ledgence.models import OperatorAction, Queue, Task
from ledgence.wording import visible
from ledgence_worker.protocol import ErrorReport, Outcome
from tests.admin.conftest import VIEWED, Ledger
from tests.admin.test_actions import ask, choose, confirm, fields_of
from tests.admin.test_pages import page_of, shown
from tests.ledger.actors import Worker, execute, expire_leases, submit_task

SCRIPT = "<script>alert('x')</script>"
HOSTILE = f"{SCRIPT}<img src=x onerror=alert(1)>\"'&amp;</pre></textarea>{{{{ 7|add:7 }}}}{{% now 'Y' %}}\u202egpj.exe"


@pytest.fixture
def hostile(ledger: Ledger) -> dict[str, object]:
    """Fill every text of the ledger that comes from elsewhere, past the checks of submission where it must be."""
    worker = Worker()
    task = submit_task(
        data={HOSTILE: [HOSTILE, "\0", 1.0]}, priority=90, max_attempts=1, queue=SCRIPT[:100], correlation_key="k"
    )
    error = ErrorReport(classes=(f"x.{SCRIPT}", HOSTILE), message=f"{HOSTILE}\0", traceback=f"{HOSTILE}\0\x1b[31m")
    worker.settle(worker.acquire_one(), Outcome.FAILED, error=error, output=f"{HOSTILE}\0\ud800")
    lost = submit_task(priority=90, max_attempts=1, queue=SCRIPT[:100])
    assignment = worker.acquire_one()
    execute("update ledgence_lease set expires_at = now() - interval '1 h' where task_id = %s", [lost])
    from ledgence.operations.expire import expire

    expire(using="default")
    worker.settle(assignment, result=json.dumps(HOSTILE), output=HOSTILE)
    held = submit_task(priority=90, queue=SCRIPT[:100])
    worker.acquire_one()
    execute("update ledgence_task set correlation_key = %s, traceparent = left(%s, 55), tenant = %s", [HOSTILE] * 3)
    execute("update ledgence_workersession set name = left(%s, 128), host = %s, queues = array[%s]", [HOSTILE] * 3)
    execute("update ledgence_program set name = left(%s, 128), entry_point = %s", [HOSTILE] * 2)
    execute("update ledgence_queue set paused_at = now(), paused_by = %s, pause_reason = %s", [HOSTILE] * 2)
    execute("update ledgence_operatoraction set reason = %s, actor_name = %s", [HOSTILE] * 2)
    execute(
        "update ledgence_apitoken set name = left(%s, 128), tenant = left(%s, 128), queues = array[%s]", [HOSTILE] * 3
    )
    execute("update ledgence_publisher set host = %s, failure = %s", [HOSTILE] * 2)
    execute("update ledgence_quarantinedmessage set message_id = %s, detail = %s, body = %s", [HOSTILE] * 3)
    return {"task": task, "lost": lost, "held": held, "session": worker.session_id}


@pytest.mark.django_db
@pytest.mark.parametrize("model", VIEWED)
def test_lists_show_hostile_text_as_text(model: str, hostile: dict[str, object], op: Client) -> None:
    page = shown(op, page_of(model))
    assert SCRIPT not in page
    assert "<img src=x" not in page


@pytest.mark.django_db
def test_pages_show_hostile_text_as_text(hostile: dict[str, object], ledger: Ledger, op: Client) -> None:
    for model, pk in [
        ("task", hostile["task"]),
        ("task", hostile["lost"]),
        ("task", hostile["held"]),
        *(("attempt", pk) for [pk] in execute("select id from ledgence_attempt")),
        ("lease", hostile["held"]),
        ("deliveryintent", ledger.queued),
        ("workersession", hostile["session"]),
        ("queue", Queue.objects.get(name=SCRIPT[:100]).pk),
        ("operatoraction", OperatorAction.objects.get().pk),
        ("program", Task.objects.get(pk=ledger.queued).program_id),
        ("publisher", ledger.publisher.pk),
        ("quarantinedmessage", ledger.quarantined.pk),
        ("apitoken", ledger.token.pk),
    ]:
        page = shown(op, page_of(model, "change", pk))
        assert SCRIPT not in page, model
        assert "<img src=x" not in page, model


@pytest.mark.django_db
def test_reports_are_shown_whole_with_the_invisible_made_visible(hostile: dict[str, object], op: Client) -> None:
    page = shown(op, page_of("task", "change", hostile["task"]))
    for text in ("&lt;script&gt;alert(&#x27;x&#x27;)", "\\u202egpj.exe", "\\u0000", "\\u001b[31m"):
        assert text in page
    blocks = re.findall(r"(?s)<pre.*?</pre>", page)
    assert len(blocks) == 4
    assert not any("\u202e" in block for block in blocks)
    late = shown(op, page_of("task", "change", hostile["lost"]))
    assert "Late report: succeeded, Output" in late


@pytest.mark.django_db
def test_a_hostile_reason_and_search_stay_text(ledger: Ledger, op: Client) -> None:
    told = confirm(op, "task", "requeue", ask(op, "task", "requeue", ledger.failed), reason=HOSTILE)
    assert told == "Requeue: changed 1 task, skipped 0."
    page = shown(op, page_of("task", "change", ledger.failed))
    assert SCRIPT not in page
    assert "&lt;script&gt;" in page
    for term in (HOSTILE, "program:" + HOSTILE, "queue:", ":", "\u202e", "%", "' or 1=1 --", "x" * 5000, "a\0b"):
        assert SCRIPT not in shown(op, page_of("task", q=term))
    wrong = op.post(page_of("task", "requeue"), {"targets": SCRIPT, "action_id": SCRIPT, "back": SCRIPT, "reason": ""})
    assert wrong.status_code == 400
    form = ask(op, "task", "requeue", ledger.cancelled) | {"back": f"?{HOSTILE}", "action_id": SCRIPT}
    again = op.post(page_of("task", "requeue"), form | {"reason": HOSTILE})
    assert SCRIPT not in again.content.decode()
    assert fields_of(again.content.decode())["back"] == f"?{HOSTILE}"


@pytest.mark.django_db
def test_a_list_chosen_from_with_hostile_filters_is_gone_back_to(ledger: Ledger, op: Client) -> None:
    page = choose(op, "task", "requeue", ledger.failed, q=HOSTILE).content.decode()
    assert SCRIPT not in page


@pytest.mark.django_db
@pytest.mark.parametrize("size", [1_000_000, 33_000])
def test_a_large_payload_is_cut_with_a_note(size: int, ledger: Ledger, op: Client) -> None:
    text = json.dumps({"blob": "ä" * (size // 2)}, ensure_ascii=False)
    execute("update ledgence_task set data = %s::json, result = %s::json where id = %s", [text, text, ledger.succeeded])
    page = shown(op, page_of("task", "change", ledger.succeeded))
    if len(text) > SHOWN:
        assert page.count(f"The first {SHOWN} of {len(text)} characters.") == 2
    assert len(page) < 150_000


@pytest.mark.django_db
def test_reports_of_megabytes_are_cut_and_the_end_of_a_traceback_is_kept(ledger: Ledger, op: Client) -> None:
    report = {"error": {"classes": ["x.Deep"], "message": "m" * 50_000, "traceback": "t" * 50_000 + "THE END"}}
    report |= {"output": "o" * 50_000 + "LAST WORDS"}  # type: ignore[dict-item]
    change = "update ledgence_attempt set report = %s::json where task_id = %s"
    execute(change, [json.dumps(report), ledger.failed])
    page = shown(op, page_of("task", "change", ledger.failed))
    assert "THE END" in page
    assert "LAST WORDS" in page
    assert len(page) < 100_000
    assert f"The last {8 * 1024} of 50007 characters." in page
    assert "x.Deep" in shown(op, page_of("task", state="failed")) or "Deep" in shown(
        op, page_of("task", state="failed")
    )
    execute(change, [json.dumps(report | {"output": "o" * 5_000_000}), ledger.failed])
    whole = shown(op, page_of("attempt", "change", ledger.attempt(ledger.failed).pk))
    assert "not readable as one" in whole
    assert len(whole) < 150_000


@pytest.mark.django_db
@pytest.mark.parametrize(
    "report",
    [
        "null",
        "[]",
        "1",
        '"text"',
        "{}",
        '{"error": 7}',
        '{"error": {}}',
        '{"error": {"classes": {}}}',
        '{"error": {"classes": [["<b>"]], "message": {"a": null}, "traceback": 5}}',
        '{"output": [1]}',
        '{"exit_status": "<b>"}',
        '{"a": "\\u0000"}',
        '{"error": {"classes": ["\\ud800"], "message": "\\ud800"}}',
        "[" * 5000 + "]" * 5000,
    ],
)
def test_a_report_of_any_shape_shows(report: str, ledger: Ledger, op: Client) -> None:
    execute(
        "update ledgence_attempt set report = %s::json, late_outcome = 'succeeded', late_report = %s::json, "
        "late_result = %s::json where task_id = %s and settlement is not null",
        [report, report, report, ledger.failed],
    )
    for model, pk in (("task", ledger.failed), ("attempt", ledger.attempt(ledger.failed).pk)):
        page = shown(op, page_of(model, "change", pk))
        assert "<b>" not in page
    shown(op, page_of("attempt"))
    shown(op, page_of("task"))


@pytest.mark.django_db
def test_a_task_with_many_attempts_shows_the_newest_and_leads_to_the_rest(ledger: Ledger, op: Client) -> None:
    execute(
        "insert into ledgence_attempt (task_id, number, cause, outcome, finished_at, delivery_mode, available_at) "
        "select %s, n, 'crashed', 'cancelled', now(), 'integrated', now() from generate_series(2, 80) n",
        [ledger.failed],
    )
    page = shown(op, page_of("task", "change", ledger.failed))
    assert page.count("<details") - page.count("<details><summary>") >= 50
    assert "#80" in page
    assert "#31<" in page
    assert "#30<" not in page
    assert page_of("attempt", q=str(ledger.failed)) in page
    rest = op.get(page_of("attempt", q=str(ledger.failed))).context["cl"]
    assert rest.result_count == 80


@pytest.mark.django_db
def test_expired_leases_are_as_harmless(hostile: dict[str, object], op: Client) -> None:
    expire_leases()
    assert SCRIPT not in shown(op, page_of("lease", "force_expire", ids=str(hostile["held"])))


# Without a database


def test_visible_leaves_ordinary_text_alone() -> None:
    text = "Größe 5 µm\n\t日本語 🙂 עברית\r\n"
    assert visible(text) == text


@pytest.mark.parametrize("code", [0x00, 0x1B, 0x7F, 0x85, 0x200E, 0x202E, 0x2066, 0xD800, 0xDFFF, 0xFEFF])
def test_visible_escapes_what_misleads_or_cannot_be_encoded(code: int) -> None:
    text = visible(f"a{chr(code)}b")
    assert text == f"a\\u{code:04x}b"
    assert text.encode()


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        "null",
        '{"a": 1.0, "b": [1e5, {"c": null}], "d": {}}',
        '"[{,:"',
        '{"a\\"[": "\\\\"}',
        "[[], [[]], {}]",
        '{"big": 123456789012345678901234567890, "z": "\\u0000\\ud800"}',
    ],
)
def test_indenting_keeps_every_character_that_means_something(text: str) -> None:
    assert re.sub(r"\s", "", indented(text)) == re.sub(r"\s", "", text)
    assert json.loads(indented(text)) == json.loads(text)


def test_indenting_puts_one_member_on_a_line() -> None:
    assert indented('{"a":1,"b":[2,{}]}') == '{\n  "a": 1,\n  "b": [\n    2,\n    {}\n  ]\n}'


@pytest.mark.parametrize("text", ['{"a": "cut of', '{"a": [1, 2', '{"a": "\\', "", "}}}]]"])
def test_indenting_survives_a_cut(text: str) -> None:
    assert re.sub(r"\s", "", indented(text)) == re.sub(r"\s", "", text)


def test_a_cut_text_tells_how_much_is_shown() -> None:
    assert "The first 3 of 5 characters." in text_block("abcde", limit=3)
    assert "The last 3 of 5 characters." in text_block("abcde", limit=3, keep_end=True)
    assert "characters" not in text_block("abcde", limit=5)
    assert "cde" in text_block("abcde", limit=3, keep_end=True)
