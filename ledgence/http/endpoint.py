"""What a handler is and gets: an endpoint of the task service, a request to it, and the reply."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from typing import Any
from uuid import UUID

from ledgence.http.parameters import Parameter
from ledgence.service import DatabaseTaskService
from ledgence.tokens import Role, Scope
from ledgence_worker import limits, wire


class Lane(StrEnum):
    """Which threads answer: what one kind of request waits for must not hold up another."""

    # Renewals keep leases alive: nothing goes before them.
    RENEW = "renew"
    # Acquisition and settlement.
    WORK = "work"
    # Submissions, and whatever people and programs look at.
    TASKS = "tasks"
    # Whether the service is ready: asked by anybody, so what it costs must not be another's.
    READY = "ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What is sent back. ``body`` is JSON."""

    status: int = 200
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True, kw_only=True)
class Request:
    """One authenticated and checked request, as its handler sees it."""

    service: DatabaseTaskService
    scope: Scope | None
    #: What the address names: the id of a task or session.
    id: UUID | None = None
    #: The parameters that were given, as their Parameters read them.
    query: Mapping[str, Any] = field(default_factory=dict)
    #: The body, of the endpoint's type.
    body: Any = None
    #: How long it has waited already.
    held_seconds: float = 0.0
    #: False while the request may still wait: then a handler that has nothing yet answers None.
    is_last: bool = True

    @property
    def using(self) -> str:
        """The database."""
        return self.service.using

    @property
    def caller(self) -> Scope:
        """The scope of the token; every endpoint but the public ones has one."""
        if self.scope is None:
            raise RuntimeError("A public endpoint asked who calls.")
        return self.scope

    @property
    def named(self) -> UUID:
        """The id in the address."""
        if self.id is None:
            raise RuntimeError("An address without an id was asked for it.")
        return self.id


class Topic(StrEnum):
    """What a request may wait for."""

    # Due work of a session; the key is the command.
    WORK = "work"
    # The end of a task; the key is its id.
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """How long a request may wait, and for what."""

    seconds: float
    topic: Topic
    #: As its topic has it.
    key: Any


class SessionUse(Enum):
    """What an endpoint wants of the worker session that its address names. It must be within the token's scope."""

    # Exists.
    EXISTING = auto()
    # Exists, or is made by this request.
    NEW = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One operation of the API: everything that the servers and its description need to know about it."""

    name: str
    method: str
    #: Below /ledgence/v1/; ``{id}`` stands for a UUID.
    path: str
    summary: str
    handler: Callable[[Request], Reply | None]
    reply: type
    #: Any of these roles may call it; nobody needs a token where there is none.
    roles: tuple[Role, ...] = ()
    #: None for what touches no database: it is answered where it is received, without a thread.
    lane: Lane | None = Lane.TASKS
    #: For an endpoint whose address names a worker session.
    session: SessionUse | None = None
    body: type | None = None
    body_bytes: int = limits.COMMAND_BYTES
    query: Mapping[str, Parameter] = field(default_factory=dict)
    statuses: tuple[int, ...] = (200,)
    #: For an endpoint without roles: how long one reply answers everybody who asks.
    kept_seconds: float = 0.0
    #: For an endpoint whose requests may wait: what this one does; None if it does not.
    wait: Callable[[Request], Wait | None] | None = None
    #: Tells the tasks that a request may have ended: who waits for one of them looks at once.
    ends: Callable[[Request], Iterable[UUID]] | None = None


def answer(value: object, *, status: int = 200) -> Reply:
    """Make a reply of one of the types in ledgence_worker.bodies or protocol."""
    return Reply(status=status, body=wire.encode(value))
