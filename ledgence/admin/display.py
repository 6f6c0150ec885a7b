"""How values stand on the pages: escaped, cut, with what is invisible made visible."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, Model, TextField
from django.db.models.functions import Cast, Left, Length
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from ledgence import wording
from ledgence.admin.redaction import JSON_PART, redact
from ledgence.conf import get_settings
from ledgence.wording import visible

#: How many characters of one text a page shows.
SHOWN = 32 * 1024

NOTHING = "–"


def text_block(text: str, *, length: int | None = None, limit: int = SHOWN, keep_end: bool = False) -> SafeString:
    """Render text of any origin in a block of its own, cut to ``limit`` characters with a note.

    ``length`` is that of the whole, if ``text`` was cut before. ``keep_end`` shows the end, where a traceback tells.
    """
    whole = max(length or 0, len(text))
    shown = visible(text[-limit:] if keep_end else text[:limit])
    if whole <= limit:
        return format_html('<pre class="ledgence-text" tabindex="0" dir="ltr">{}</pre>', shown)
    note = (
        _("The last %(shown)d of %(whole)d characters.")
        if keep_end
        else _("The first %(shown)d of %(whole)d characters.")
    )
    note %= {"shown": min(limit, len(text)), "whole": whole}
    return format_html(
        '<p class="ledgence-note">{}</p><pre class="ledgence-text" tabindex="0" dir="ltr">{}</pre>', note, shown
    )


def indented(text: str) -> str:
    """Indent JSON text without reading it: every value stays as it is written, and a cut end does no harm."""
    return "".join(_indent(JSON_PART.findall(text)))


def _indent(parts: Iterable[str]) -> Iterator[str]:
    depth, before = 0, ""
    for part in parts:
        if part in "]}":
            depth = max(0, depth - 1)
            if before not in ("[", "{"):
                yield "\n" + "  " * depth
        elif before and before in "[{,":
            yield "\n" + "  " * depth
        yield part + " " if part == ":" else part
        if part in "[{":
            depth += 1
        before = part


def json_block(text: str, *, length: int) -> SafeString:
    """Render JSON text redacted; ``length`` is that of the whole, of which ``text`` may be the beginning alone."""
    shown = redact(text[:SHOWN])
    if length > SHOWN:
        return text_block(shown, length=length)
    # Deep structures may grow much by indentation; then the text itself is shown.
    spread = indented(shown)
    return text_block(spread if len(spread) <= SHOWN else shown)


def json_column(model: type[Model], pk: Any, column: str) -> SafeString | str:
    """Read one ``json`` column of a row as text, cut by the database, and render it redacted."""
    column_text = Cast(F(column), TextField())
    row = (
        model._default_manager.using(get_settings().database)
        .filter(pk=pk)
        .values_list(Left(column_text, SHOWN), Length(column_text))
        .first()
    )
    if row is None or row[0] is None:
        return NOTHING
    return json_block(row[0], length=row[1])


def moment(at: datetime | None) -> SafeString | str:
    """Render a time to the second in the current zone, with the exact one in UTC as title."""
    if at is None:
        return NOTHING
    local = timezone.localtime(at) if timezone.is_aware(at) else at
    return format_html(
        '<time datetime="{}" title="{}" class="nowrap">{}</time>',
        at.isoformat(),
        at.isoformat(),
        local.strftime("%Y-%m-%d %H:%M:%S"),
    )


def span(length: timedelta | None) -> str:
    """Say how long, in the two largest units that matter."""
    return NOTHING if length is None else wording.span(length)


def badge(kind: str, label: Any) -> SafeString:
    """Render a word that stands out; ``kind`` picks the colour, the word alone tells the meaning."""
    return format_html('<span class="ledgence-badge ledgence-{}">{}</span>', kind, label)


def join(parts: Iterable[Any]) -> SafeString:
    """Render parts one after another."""
    return format_html_join(" ", "{}", ((part,) for part in parts if part))


def short(pk: Any, number: int | None = None) -> SafeString:
    """Render the random end of an id, which tells rows apart, with the whole as title; ``number`` is an attempt's."""
    tail = "" if number is None else f".{number}"
    return format_html('<code title="{}">{}</code>', f"{pk}{tail}", f"{str(pk)[-12:]}{tail}")


def link(model: type[Model], pk: Any, label: Any) -> SafeString:
    """Render a link to a row's page."""
    opts = model._meta
    return format_html(
        '<a href="{}">{}</a>', reverse(f"admin:{opts.app_label}_{opts.model_name}_change", args=[pk]), label
    )
