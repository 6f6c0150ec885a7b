"""What a task's policy is: submission's word before the program's, the program's before the settings'."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ledgence import sql
from ledgence.conf import get_settings
from ledgence.models import Policy
from ledgence_worker import strict_json
from ledgence_worker.programs import Backoff, Defaults, Unset


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyValue:
    """A policy as a value, with the digest by which tasks share its row and which tells policies apart."""

    max_attempts: int = field(compare=False)
    timeout_seconds: float | None = field(compare=False)
    backoff: Backoff = field(compare=False)
    retry_on: tuple[str, ...] = field(compare=False)
    digest: bytes

    @classmethod
    def of(
        cls, *, max_attempts: int, timeout_seconds: float | None, backoff: Backoff, retry_on: Iterable[str]
    ) -> "PolicyValue":
        words = tuple(sorted(set(retry_on)))
        content = [
            max_attempts,
            None if timeout_seconds is None else float(timeout_seconds),
            *map(float, (backoff.initial_seconds, backoff.factor, backoff.maximum_seconds, backoff.jitter)),
            words,
        ]
        return cls(
            max_attempts=max_attempts,
            timeout_seconds=timeout_seconds,
            backoff=backoff,
            retry_on=words,
            digest=hashlib.sha256(strict_json.canonical(content)).digest(),
        )

    @classmethod
    def of_row(cls, row: Policy) -> "PolicyValue":
        return cls.of(
            max_attempts=row.max_attempts,
            timeout_seconds=row.timeout_seconds,
            backoff=Backoff(
                initial_seconds=row.backoff_initial_seconds,
                factor=row.backoff_factor,
                maximum_seconds=row.backoff_maximum_seconds,
                jitter=row.backoff_jitter,
            ),
            retry_on=row.retry_on,
        )


def resolve(given: Defaults, program: Defaults) -> PolicyValue:
    """Merge what a submission gave, what its program says and the settings, each part on its own."""
    settings = get_settings().defaults
    return PolicyValue.of(
        max_attempts=_first(given.max_attempts, program.max_attempts, settings.max_attempts),
        timeout_seconds=_first(given.timeout_seconds, program.timeout_seconds, settings.timeout_seconds),
        backoff=_first(given.backoff, program.backoff, settings.backoff),
        retry_on=_first(given.retry_on, program.retry_on, settings.retry_on),
    )


def _first(*values: Any) -> Any:
    """Return the first value that is set. Any: the parts have types of their own."""
    return next(value for value in values if not isinstance(value, Unset))


def ensure_policy(policy: PolicyValue, *, using: str) -> None:
    """Make the policy's row if it does not exist."""
    sql.run(
        "ensure_policy",
        using,
        {
            "digest": policy.digest,
            "max_attempts": policy.max_attempts,
            "timeout_seconds": policy.timeout_seconds,
            "initial_seconds": policy.backoff.initial_seconds,
            "factor": policy.backoff.factor,
            "maximum_seconds": policy.backoff.maximum_seconds,
            "jitter": policy.backoff.jitter,
            "retry_on": list(policy.retry_on),
        },
    )
