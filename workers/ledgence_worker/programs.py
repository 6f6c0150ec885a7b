"""Programs: functions registered under a name and a version, which workers run and tasks name."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import update_wrapper
from typing import Any, Final

from ledgence_worker.errors import Conflict, InvalidInput, NotFound
from ledgence_worker.identifiers import check_identifier
from ledgence_worker.limits import check_range
from ledgence_worker.protocol import CatalogueEntry, Outcome

BACKOFF_SECONDS_MAX: Final = 31_536_000.0
#: How many attempts a policy may allow: what the ledger counts in a small integer.
ATTEMPTS_MAX: Final = 32_767
RETRYABLE_OUTCOMES: Final = frozenset({Outcome.FAILED, Outcome.TIMED_OUT, Outcome.CRASHED, Outcome.LOST})


class Unset(Enum):
    """Marks a default that a program leaves to the settings."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The delay before a retry: ``initial_seconds * factor ** n``, at most ``maximum_seconds``, spread by ``jitter``.

    Raises InvalidInput for numbers outside their ranges, so that the delay can never overflow.
    """

    initial_seconds: float = 5.0
    factor: float = 2.0
    maximum_seconds: float = 3600.0
    jitter: float = 0.1

    def __post_init__(self) -> None:
        check_range("backoff initial_seconds", self.initial_seconds, 0.0, BACKOFF_SECONDS_MAX)
        check_range("backoff factor", self.factor, 1.0, 10.0)
        check_range("backoff maximum_seconds", self.maximum_seconds, self.initial_seconds, BACKOFF_SECONDS_MAX)
        check_range("backoff jitter", self.jitter, 0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What a program says about its tasks; UNSET leaves it to the settings. ``timeout_seconds`` None: unlimited."""

    queue: str | Unset = UNSET
    timeout_seconds: float | None | Unset = UNSET
    max_attempts: int | Unset = UNSET
    backoff: Backoff | Unset = UNSET
    #: Words of Outcome and dotted names of exception classes.
    retry_on: tuple[str, ...] | Unset = UNSET

    def __post_init__(self) -> None:
        if not isinstance(self.queue, Unset):
            check_identifier(self.queue, what="queue")
        if not isinstance(self.timeout_seconds, Unset) and self.timeout_seconds is not None:
            check_range("timeout", self.timeout_seconds, 0.001, BACKOFF_SECONDS_MAX)
        if not isinstance(self.max_attempts, Unset):
            check_range("max_attempts", self.max_attempts, 1, ATTEMPTS_MAX)
            if not isinstance(self.max_attempts, int):
                raise InvalidInput(f"max_attempts must be a whole number, not {self.max_attempts!r}.")
        backoff: object = self.backoff
        if not isinstance(backoff, Unset | Backoff):
            raise InvalidInput(f"backoff must be a Backoff, not {backoff!r}.")


#: Any: a handler takes the event, and the context if it declares a second parameter; it returns JSON or a coroutine.
type Handler = Callable[..., Any]


class Program[H: Handler]:
    """A registered function. Calling it calls the function, so that tests need nothing else."""

    def __init__(self, function: H, *, name: str, version: str, defaults: Defaults) -> None:
        self.function = function
        self.name = check_identifier(name, what="program name")
        self.version = check_identifier(version, what="program version")
        self.entry_point = f"{function.__module__}:{function.__qualname__}"
        self.defaults = defaults
        self.takes_context = _takes_context(function)
        update_wrapper(self, function)

    # Any: it passes on whatever the function takes and returns.
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Program {self.name} {self.version} {self.entry_point}>"

    @property
    def catalogue_entry(self) -> CatalogueEntry:
        return CatalogueEntry(name=self.name, version=self.version, entry_point=self.entry_point)


_registry: Final[dict[tuple[str, str], Program[Any]]] = {}


def program[H: Handler](
    name: str,
    *,
    version: str,
    queue: str | Unset = UNSET,
    timeout: float | None | Unset = UNSET,
    max_attempts: int | Unset = UNSET,
    backoff: Backoff | Unset = UNSET,
    retry_on: Iterable[Outcome | type[BaseException] | str] | Unset = UNSET,
) -> Callable[[H], Program[H]]:
    """Register a function as a program; what is not given is left to the settings.

    ``timeout`` is in seconds, None for no limit. ``retry_on`` holds outcomes, and exception classes or their dotted
    names: an exception also matches by its bases. Raises InvalidInput for a value out of range, and Conflict when the
    name and version belong to another function.
    """
    defaults = Defaults(
        queue=queue,
        timeout_seconds=timeout,
        max_attempts=max_attempts,
        backoff=backoff,
        retry_on=retry_on if isinstance(retry_on, Unset) else retry_words(retry_on),
    )

    def register(function: H) -> Program[H]:
        made = Program(function, name=name, version=version, defaults=defaults)
        known = _registry.get((name, version))
        if known is not None and known.entry_point != made.entry_point:
            raise Conflict(
                f"Program {name!r} version {version!r} is {known.entry_point}, so it cannot be {made.entry_point} too: "
                "give the new function another version."
            )
        _registry[name, version] = made
        return made

    return register


def find(name: str, version: str) -> Program[Any]:
    """Return a registered program. Raises NotFound."""
    try:
        return _registry[name, version]
    except KeyError:
        raise NotFound(f"No program {name!r} version {version!r} is registered in this process.") from None


def catalogue() -> tuple[CatalogueEntry, ...]:
    """Return every registered program, ordered by name and version."""
    return tuple(_registry[key].catalogue_entry for key in sorted(_registry))


def class_name(kind: type) -> str:
    """Return the dotted name by which reports and ``retry_on`` know an exception class."""
    return f"{kind.__module__}.{kind.__qualname__}"


def retry_words(entries: object) -> tuple[str, ...]:
    """Return the words by which a policy names outcomes and exception classes. Raises InvalidInput."""
    if isinstance(entries, str) or not isinstance(entries, Iterable):
        raise InvalidInput(f"retry_on takes a list, not {entries!r}.")
    return tuple(map(_retry_word, entries))


def _retry_word(entry: object) -> str:
    if isinstance(entry, type) and issubclass(entry, BaseException):
        return class_name(entry)
    if isinstance(entry, str) and entry in RETRYABLE_OUTCOMES:
        return str(entry)
    if isinstance(entry, str) and "." in entry and all(entry.split(".")) and entry.isprintable():
        return entry
    words = ", ".join(sorted(RETRYABLE_OUTCOMES))
    raise InvalidInput(f"retry_on takes exception classes, their dotted names, or one of {words}; not {entry!r}.")


def _takes_context(function: Handler) -> bool:
    positional = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    parameters = inspect.signature(function).parameters.values()
    count = sum(parameter.kind in positional for parameter in parameters)
    if not 1 <= count <= 2 or any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters):
        raise InvalidInput(f"Program function {function.__qualname__} must take (event) or (event, context).")
    return count == 2
