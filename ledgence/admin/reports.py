"""What a worker reported of an attempt's end, read from text that anybody may have written."""

import json
from collections.abc import Callable, Collection, Iterator
from typing import Any

from django.db.models import TextField
from django.db.models.functions import Cast, Left
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from ledgence.admin.display import text_block
from ledgence.admin.redaction import hide
from ledgence.exit_status import advise_exit, explain_exit, name_exit
from ledgence.frames import own_frames
from ledgence.wording import visible

#: How many characters of a report are read: more than a worker sends, less than the ledger takes.
READ = 256 * 1024

#: How many characters tell the exception's class.
HEAD = 2_000

type Block = tuple[str, SafeString]


def report_text(column: str) -> Left:
    """Return the expression for a report as text, cut by the database."""
    return Left(Cast(column, TextField()), READ)


def report_head(column: str) -> Left:
    """Return the expression for the beginning of a report, which names the exception's class."""
    return Left(Cast(column, TextField()), HEAD)


def report_blocks(
    text: str | None, *, outcome: str | None, host: str, limit: int, secrets: Collection[str]
) -> Iterator[Block]:
    """Yield (label, HTML) of the parts of a report, each without ``secrets`` and cut to ``limit`` characters.

    ``outcome`` and ``host`` are those of the attempt that it tells of.
    """

    def block(part: Any, *, keep_end: bool = False) -> SafeString:
        return text_block(hide(_text(part), secrets), limit=limit, keep_end=keep_end)

    if text is None:
        return
    try:
        report = json.loads(text)
    except (ValueError, RecursionError):
        report = None
    if not isinstance(report, dict):
        yield _("Report, not readable as one"), block(text)
        return
    error = report.get("error")
    if isinstance(error, dict):
        classes = error.get("classes")
        name = classes[0] if isinstance(classes, list) and classes else ""
        yield _("Error"), block(f"{_text(name)}: {_text(error.get('message'))}")
        if error.get("traceback"):
            yield _("Traceback"), _traceback(hide(_text(error["traceback"]), secrets), limit=limit)
    if report.get("exit_status") is not None:
        yield _("Exit status of the process"), _exit_status(report["exit_status"], block, outcome=outcome, host=host)
    if report.get("output"):
        yield _("Output"), block(report["output"], keep_end=True)


def _exit_status(status: Any, block: Callable[[Any], SafeString], *, outcome: str | None, host: str) -> SafeString:
    """Render an exit status with what it tells; as it stands where it is none."""
    if type(status) is not int:
        return block(status)
    told, advice = explain_exit(status, outcome), advise_exit(status, outcome, host)
    return format_html("<p>{}: {}. {}</p>", name_exit(status), told, visible(advice))


def _traceback(text: str, *, limit: int) -> SafeString:
    """Render a traceback: the application's frames, and all of them to unfold, where these are not the same."""
    whole = text_block(text, limit=limit, keep_end=True)
    own = own_frames(text)
    if own is None:
        return whole
    return format_html(
        "{}<details><summary>{}</summary>{}</details>",
        text_block(own, limit=limit, keep_end=True),
        _("With the frames of installed packages"),
        whole,
    )


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
