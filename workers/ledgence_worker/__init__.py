"""The execution side of Ledgence: programs, the processes that run them, and the clients of the task service."""

from ledgence_worker.context import Context, Stopped
from ledgence_worker.errors import (
    BootstrapFailed,
    Busy,
    Conflict,
    ExternalDispatchRequired,
    Forbidden,
    InvalidInput,
    InvalidResult,
    LauncherLost,
    LedgenceError,
    NotFinished,
    NotFound,
    OutOfOrder,
    OwnershipLost,
    ProtocolError,
    SessionExpired,
    TaskFailed,
    Unauthenticated,
    Unavailable,
)
from ledgence_worker.programs import Backoff, Program, program
from ledgence_worker.protocol import Outcome

__all__ = [
    "Backoff",
    "BootstrapFailed",
    "Busy",
    "Conflict",
    "Context",
    "ExternalDispatchRequired",
    "Forbidden",
    "InvalidInput",
    "InvalidResult",
    "LauncherLost",
    "LedgenceError",
    "NotFinished",
    "NotFound",
    "OutOfOrder",
    "Outcome",
    "OwnershipLost",
    "Program",
    "ProtocolError",
    "SessionExpired",
    "Stopped",
    "TaskFailed",
    "Unauthenticated",
    "Unavailable",
    "program",
]
