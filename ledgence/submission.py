"""A submission: one validated request for work, and its answer."""

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ledgence.models import Task
from ledgence.policy import PolicyValue
from ledgence_worker import strict_json

#: Tenant, namespace and idempotency key.
type Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What tasks that are submitted together usually have in common. ``run_after`` None means now."""

    program: str
    version: str
    entry_point: str | None
    tenant: str
    namespace: str
    queue: str
    priority: int
    policy: PolicyValue
    run_after: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One validated request for work. ``data`` is strict JSON text."""

    terms: Terms
    data: str
    idempotency_key: str | None = None
    correlation_key: str | None = None
    traceparent: str | None = None
    copy_of: UUID | None = None

    @classmethod
    def copy(cls, task: Task, *, data: str) -> "Submission":
        """Make the submission of a copy of a task, without its idempotency key. ``data`` is the task's, as text."""
        terms = Terms(
            program=task.program.name,
            version=task.program.version,
            entry_point=None,
            tenant=task.tenant,
            namespace=task.namespace,
            queue=task.queue.name,
            priority=task.priority,
            policy=PolicyValue.of_row(task.policy),
        )
        return cls(
            terms=terms, data=data, correlation_key=task.correlation_key, traceparent=task.traceparent, copy_of=task.pk
        )

    @property
    def key(self) -> Key | None:
        """Its tenant, namespace and idempotency key; None without one."""
        if self.idempotency_key is None:
            return None
        return self.terms.tenant, self.terms.namespace, self.idempotency_key

    def digest(self) -> bytes | None:
        """Return the digest of the content that an idempotency key stands for."""
        if self.idempotency_key is None:
            return None
        terms = self.terms
        content = [terms.queue, terms.program, terms.version, json.loads(self.data), self.correlation_key]
        return hashlib.sha256(strict_json.canonical(content)).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The answer to one submission: the task's id, and whether this call made it (False: replayed by its key)."""

    task_id: UUID
    is_new: bool
