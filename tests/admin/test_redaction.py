"""What is secret in data and results stands on no page: not where it is shown, nor where a report quotes it."""

import json
from uuid import UUID

import pytest
from django.test import Client, override_settings

from ledgence.admin.redaction import REDACTED, data_of, hide, redact, secrets_of
from ledgence.models import Attempt
from ledgence_worker.protocol import ErrorReport, Outcome
from tests.admin.conftest import Ledger
from tests.admin.test_pages import page_of, shown
from tests.ledger.actors import Worker, execute, submit_task

SECRET = 'pa55"wörd\n\\end'
DATA = {"Api-Key": SECRET, "user": "ann", "nested": [{"card_TOKEN": {"number": 4111222233334444, "note": "as told"}}]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1.0, "password": "x"}', '{"a": 1.0, "password": "[redacted]"}'),
        ('{"X-Api-Key":null,"b":[ ]}', '{"X-Api-Key":"[redacted]","b":[ ]}'),
        ('[{"DB_PASSWORD" : {"a": [1, {"b": 2}]} , "c": 3}]', '[{"DB_PASSWORD" : "[redacted]" , "c": 3}]'),
        ('{"pass\\u0077ord": "x"}', '{"pass\\u0077ord": "[redacted]"}'),
        ('{"note": "password\\": \\"x"}', '{"note": "password\\": \\"x"}'),
        ('["password", "x"]', '["password", "x"]'),
        ('"password"', '"password"'),
        # Cut anywhere, as a long one is.
        ('{"secret": {"a": "b', '{"secret": "[redacted]"'),
        ('{"secret": "b', '{"secret": "[redacted]"'),
        ('{"secret":', '{"secret":'),
        # What is no JSON at all stays as it is, but for such a key.
        ("a : b ] } , token", "a : b ] } , token"),
        ("token: abc rest", 'token: "[redacted]" rest'),
        ("", ""),
    ],
)
def test_the_values_of_redacted_keys_are_replaced_and_the_rest_stays(text: str, expected: str) -> None:
    assert redact(text) == expected


def test_the_setting_says_which_keys() -> None:
    text = '{"password": "x", "Kenn-Wort": "y"}'
    for words, expected in [
        (("kenn_wort",), '{"password": "x", "Kenn-Wort": "[redacted]"}'),
        ((), text),
        (("",), '{"password": "[redacted]", "Kenn-Wort": "[redacted]"}'),
    ]:
        with override_settings(LEDGENCE={"REDACTED_KEYS": words}):
            assert redact(text) == expected


def test_a_secret_is_hidden_however_it_is_written() -> None:
    as_json = [json.dumps(SECRET, ensure_ascii=is_ascii) for is_ascii in (True, False)]
    text = f"raw {SECRET} python {SECRET!r} json {' '.join(as_json)}"
    assert hide(text, {SECRET}) == f'raw {REDACTED} python \'{REDACTED}\' json "{REDACTED}" "{REDACTED}"'


@pytest.fixture
def task(db: None) -> UUID:
    """A failed task whose error, output and late report quote what its data hide."""
    worker = Worker()
    task = submit_task(data=DATA, max_attempts=1, priority=90)
    error = ErrorReport(
        classes=("builtins.KeyError",),
        message=f"no {SECRET!r} for 4111222233334444",
        traceback=f'  File "a.py", line 1\n    raise KeyError({SECRET!r})\nKeyError: {SECRET}',
    )
    worker.settle(worker.acquire_one(), Outcome.FAILED, error=error, output=f"asking with {SECRET}, as told by ann")
    change = "update ledgence_attempt set late_outcome = 'failed', late_at = now(), late_report = report"
    execute(f"{change}, late_result = %s::json where task_id = %s", [json.dumps(DATA), task])
    return task


def test_short_values_and_keys_are_not_sought(task: UUID) -> None:
    assert secrets_of(data_of(task)) == {SECRET, "4111222233334444", "as told"}
    execute("update ledgence_task set data = %s::json where id = %s", ['{"token": ["abc", 12, true, ""]}', task])
    assert secrets_of(data_of(task)) == frozenset()


def test_no_page_shows_a_secret(task: UUID, op: Client) -> None:
    pages = [
        page_of("task", "change", task),
        page_of("attempt", "change", Attempt.objects.get(task_id=task).pk),
        page_of("task", state="failed"),
        page_of("attempt"),
        page_of("queue", "overview"),
        page_of("task", "requeue", ids=str(task)),
    ]
    for address in pages:
        page = shown(op, address)
        for part in ("pa55", "4111222233334444", "as told"):
            assert part not in page, address
    for address in pages[:2]:
        page = shown(op, address)
        assert REDACTED in page
        assert "by ann" in page
        assert "KeyError" in page


def test_a_message_that_could_not_be_read_is_redacted(ledger: Ledger, op: Client) -> None:
    execute("update ledgence_quarantinedmessage set body = %s", ['{"v": 2, "token": "pa55word", "task": "x"}'])
    page = shown(op, page_of("quarantinedmessage", "change", ledger.quarantined.pk))
    assert "pa55word" not in page
    assert REDACTED in page
