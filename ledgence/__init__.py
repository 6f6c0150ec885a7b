"""Background work for Django with PostgreSQL as the only authority."""

from typing import TYPE_CHECKING, Any

from ledgence_worker import Backoff, Context, program
from ledgence_worker.errors import (
    Busy,
    Conflict,
    InvalidInput,
    LedgenceError,
    NotFound,
    OwnershipLost,
    Unavailable,
)

if TYPE_CHECKING:
    from ledgence.api import aget, asubmit, asubmit_many, get, submit, submit_many
    from ledgence.handle import NotFinished, TaskFailed, TaskHandle
    from ledgence.new_task import NewTask

__all__ = [
    "Backoff",
    "Busy",
    "Conflict",
    "Context",
    "InvalidInput",
    "LedgenceError",
    "NewTask",
    "NotFinished",
    "NotFound",
    "OwnershipLost",
    "TaskFailed",
    "TaskHandle",
    "Unavailable",
    "aget",
    "asubmit",
    "asubmit_many",
    "get",
    "program",
    "submit",
    "submit_many",
]

_LAZY = {
    **dict.fromkeys(("aget", "asubmit", "asubmit_many", "get", "submit", "submit_many"), "ledgence.api"),
    **dict.fromkeys(("NotFinished", "TaskFailed", "TaskHandle"), "ledgence.handle"),
    "NewTask": "ledgence.new_task",
}


def __getattr__(name: str) -> Any:
    """Import what needs the models when it is first used: Django imports this package before they are ready."""
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
