"""How long something takes or took, in words that people read."""

from datetime import timedelta


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
