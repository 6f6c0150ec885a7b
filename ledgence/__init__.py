"""Background work for Django with PostgreSQL as the only authority."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ledgence_worker import Backoff, Context, Outcome, Stopped, program
from ledgence_worker.errors import Busy, Conflict, InvalidInput, LedgenceError, NotFinished, NotFound, TaskFailed

if TYPE_CHECKING:
    from ledgence.api import aget, asubmit, asubmit_many, get, submit, submit_many
    from ledgence.handle import TaskHandle
    from ledgence.models import State
    from ledgence.new_task import NewTask
    from ledgence.operations.cancel import CancelStatus

__all__ = [
    "Backoff",
    "Busy",
    "CancelStatus",
    "Conflict",
    "Context",
    "InvalidInput",
    "LedgenceError",
    "NewTask",
    "NotFinished",
    "NotFound",
    "Outcome",
    "State",
    "Stopped",
    "TaskFailed",
    "TaskHandle",
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
    "CancelStatus": "ledgence.operations.cancel",
    "NewTask": "ledgence.new_task",
    "State": "ledgence.models",
    "TaskHandle": "ledgence.handle",
}


def __getattr__(name: str) -> Any:
    """Import what needs the models when it is first used: Django imports this package before they are ready."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
