"""The task service for applications, over HTTP: submit tasks, look at them, wait for them, cancel and requeue them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ledgence_worker.bodies import (
    AttemptStatus,
    CancelAnswer,
    NewTaskBody,
    RequeueAnswer,
    Submitted,
    TaskStatus,
)
from ledgence_worker.client.client import Client

if TYPE_CHECKING:
    from ledgence_worker.client.async_client import AsyncClient

__all__ = [
    "AsyncClient",
    "AttemptStatus",
    "CancelAnswer",
    "Client",
    "NewTaskBody",
    "RequeueAnswer",
    "Submitted",
    "TaskStatus",
]


def __getattr__(name: str) -> Any:
    """Import AsyncClient when it is first used: it needs httpx, which Client does without."""
    if name == "AsyncClient":
        return import_module("ledgence_worker.client.async_client").AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
