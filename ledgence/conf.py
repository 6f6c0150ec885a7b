"""Ledgence's settings: one LEDGENCE dict in the project's settings, read into one frozen value."""

from dataclasses import dataclass, fields
from functools import cache
from types import NoneType
from typing import Any

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.dispatch import receiver

from ledgence_worker import limits
from ledgence_worker.errors import InvalidInput
from ledgence_worker.identifiers import check_identifier
from ledgence_worker.programs import BACKOFF_SECONDS_MAX, Backoff, Defaults, retry_words

SECONDS_MAX = BACKOFF_SECONDS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgenceSettings:
    """Everything that a project may set in LEDGENCE, by the upper-case name. Durations are in seconds."""

    #: The database that holds the ledger.
    database: str = "default"
    tenant: str = "default"
    namespace: str = "default"
    #: Where tasks go that name no queue.
    queue: str = "default"
    #: L: how long a claim or renewal lasts. At least 2.
    lease_seconds: float = 60.0
    #: How long a worker session lasts without being extended.
    session_seconds: float = 86_400.0
    #: How long settlement, submission and operator actions wait for a row before they answer Busy.
    lock_timeout_seconds: float = 1.0
    #: Defaults of a task's policy; a program and a submission may say otherwise.
    max_attempts: int = 3
    timeout_seconds: float | None = 300.0
    backoff_initial_seconds: float = 5.0
    backoff_factor: float = 2.0
    backoff_maximum_seconds: float = 3600.0
    backoff_jitter: float = 0.1
    retry_on: tuple[str, ...] = ("crashed", "timed_out", "lost")
    #: Environment variables ("NAME" or "PREFIX_*") that the processes of programs get beside the built-in ones.
    child_env: tuple[str, ...] = ()
    #: Whose values admin does not show: keys of data and results that contain one of these words, in any case.
    redacted_keys: tuple[str, ...] = (
        "password",
        "passwd",
        "secret",
        "token",
        "api_key",
        "apikey",
        "private_key",
        "authorization",
        "cookie",
        "credential",
    )
    #: Whether LISTEN and NOTIFY shorten waits. Everything works without, within a poll of a second.
    hints: bool = True

    @property
    def cleanup_seconds(self) -> float:
        """How long an attempt keeps its lease after its execution deadline or a cancel request, to end properly."""
        return min(30.0, self.lease_seconds / 2)

    @property
    def defaults(self) -> Defaults:
        """What a task's policy is where neither its submission nor its program says anything. Raises InvalidInput."""
        return Defaults(
            timeout_seconds=self.timeout_seconds,
            max_attempts=self.max_attempts,
            backoff=Backoff(
                initial_seconds=self.backoff_initial_seconds,
                factor=self.backoff_factor,
                maximum_seconds=self.backoff_maximum_seconds,
                jitter=self.backoff_jitter,
            ),
            retry_on=retry_words(self.retry_on),
        )


#: What a setting of each type may be given as. True is no number.
GIVEN: dict[Any, tuple[type, ...]] = {
    str: (str,),
    bool: (bool,),
    int: (int,),
    float: (int, float),
    float | None: (int, float, NoneType),
    tuple[str, ...]: (tuple, list),
}


@cache
def get_settings() -> LedgenceSettings:
    """Return the project's settings. Raises ImproperlyConfigured, naming what is wrong."""
    given: dict[str, Any] = getattr(django_settings, "LEDGENCE", {})
    if not isinstance(given, dict):
        raise ImproperlyConfigured(f"LEDGENCE must be a dict, not {type(given).__name__}.")
    known = {field.name.upper(): field for field in fields(LedgenceSettings)}
    if unknown := sorted(set(given) - set(known)):
        raise ImproperlyConfigured(f"LEDGENCE has unknown settings: {', '.join(unknown)}. Known: {', '.join(known)}.")
    for name, value in given.items():
        kind = known[name].type
        if not isinstance(value, GIVEN[kind]) or (isinstance(value, bool) and kind is not bool):
            raise ImproperlyConfigured(f"LEDGENCE[{name!r}] is {value!r}; it must be {_words(kind)}.")
    values = LedgenceSettings(**{known[name].name: value for name, value in given.items()})
    _check_ranges(values)
    return values


def _check_ranges(values: LedgenceSettings) -> None:
    """Refuse what each submission or renewal would stumble over. Raises ImproperlyConfigured."""
    # Written so that NaN, which compares false with everything, is refused.
    if not limits.LEASE_SECONDS_MIN <= values.lease_seconds <= SECONDS_MAX:
        raise ImproperlyConfigured(
            f"LEDGENCE['LEASE_SECONDS'] is {values.lease_seconds}; renewal needs at least {limits.LEASE_SECONDS_MIN}."
        )
    for name, low in {"SESSION_SECONDS": limits.LEASE_SECONDS_MIN, "LOCK_TIMEOUT_SECONDS": 0.001}.items():
        value = getattr(values, name.lower())
        if not low <= value <= SECONDS_MAX:
            raise ImproperlyConfigured(f"LEDGENCE[{name!r}] is {value}; it must be {low:g} to {SECONDS_MAX:g}.")
    try:
        for name in ("tenant", "namespace", "queue"):
            check_identifier(getattr(values, name), what=name)
        _ = values.defaults
    except InvalidInput as error:
        raise ImproperlyConfigured(f"LEDGENCE cannot be used: {error}") from error


def _words(kind: Any) -> str:
    return " or ".join(accepted.__name__ for accepted in GIVEN[kind]).replace("NoneType", "None")


@receiver(setting_changed)
def forget_settings(*, setting: str, **_: object) -> None:
    """Read LEDGENCE anew after a test has overridden it."""
    if setting == "LEDGENCE":
        get_settings.cache_clear()
