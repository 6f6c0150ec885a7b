"""The operators' pages in Django admin: read-only rows, and what may be done to them, each confirmed and recorded."""

from ledgence.admin import (
    api_token,
    attempt,
    delivery,
    lease,
    operator_action,
    program,
    publisher,
    quarantine,
    queue,
    session,
    task,
)

__all__ = [
    "api_token",
    "attempt",
    "delivery",
    "lease",
    "operator_action",
    "program",
    "publisher",
    "quarantine",
    "queue",
    "session",
    "task",
]
