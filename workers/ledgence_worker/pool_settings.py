"""What a process pool is told at start."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ledgence_worker.errors import InvalidInput
from ledgence_worker.limits import CONCURRENCY_MAX, check_range


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """The settings of a ProcessPool. ``bootstrap`` is "module:function" (see bootstrap.py).

    ``env_allow`` names variables that pass to the managed processes beside the built-in list; ``environment`` sets
    variables for them. None means without limit. Raises InvalidInput.
    """

    concurrency: int
    bootstrap: str
    env_allow: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    #: From SIGTERM, or from a friendly request to end, to SIGKILL; short leases make it shorter.
    kill_after_seconds: float = 5.0
    #: From SIGKILL to quarantine.
    confirm_seconds: float = 10.0
    handshake_seconds: float = 60.0
    max_tasks_per_child: int | None = None
    max_rss_bytes: int | None = None
    #: How long a process may rest before it ends; the last one that rests stays.
    idle_seconds: float | None = None

    def __post_init__(self) -> None:
        check_range("concurrency", self.concurrency, 1, CONCURRENCY_MAX)
        for name in ("max_tasks_per_child", "max_rss_bytes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidInput(f"{name} must be at least 1, not {value}.")
        for name in ("kill_after_seconds", "confirm_seconds", "handshake_seconds"):
            check_range(name, getattr(self, name), 0.001, 86_400)
        if self.idle_seconds is not None:
            check_range("idle_seconds", self.idle_seconds, 0.001, 31_536_000)
