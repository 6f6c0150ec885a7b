"""How values read in sentences: durations in words, times, and text of any origin without what is invisible."""

import re
from datetime import datetime, timedelta

from django.utils import timezone

# Controls, marks that turn the direction of text, and halves of characters: invisible, misleading, or not encodable.
INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def visible(text: str) -> str:
    """Return the text with invisible and direction-turning characters as escapes, always encodable."""
    return INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def span(length: timedelta) -> str:
    """Say how long, in the two largest units that matter; whether it lies before or ahead is the caller's to say."""
    seconds = abs(length.total_seconds())
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def clock_time(at: datetime) -> str:
    """Say when, to the second, in the current zone."""
    if timezone.is_naive(at):
        return f"{at:%Y-%m-%d %H:%M:%S}"
    return f"{timezone.localtime(at):%Y-%m-%d %H:%M:%S %Z}"
