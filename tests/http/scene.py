"""What callers of the API find: tokens of every kind, tasks in every state, a worker with a lease, and strangers."""

from dataclasses import dataclass
from hashlib import md5
from typing import Any
from uuid import UUID, uuid4

from ledgence.housekeeping import record_turn
from ledgence.models import Role
from ledgence.operations.cancel import cancel
from ledgence.operations.sessions import close_session
from ledgence.tokens import issue
from ledgence_worker.protocol import Assignment
from tests.ledger.actors import PROGRAM, USING, VERSION, Worker, execute, submit_task

TENANT = "default"
ALL = tuple(Role)


def make_token(*roles: Role, tenant: str = TENANT, queues: tuple[str, ...] = (), name: str = "tests") -> str:
    """Issue a token with the roles (none named: all) and return its text."""
    given = roles or ALL
    return issue(name=name, roles=given, tenant=tenant, namespace="default", queues=queues, using=USING)[1]


def make_expired_token() -> str:
    """Issue a token whose time is over."""
    text = make_token()
    execute(
        "update ledgence_apitoken set created_at = now() - interval '2 h', expires_at = now() - interval '1 h' "
        "where public_id = %s",
        [text.split("_")[1]],
    )
    return text


def make_revoked_token() -> str:
    """Issue a token and revoke it."""
    text = make_token()
    execute("update ledgence_apitoken set revoked_at = now() where public_id = %s", [text.split("_")[1]])
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A ledger to call upon."""

    token: str
    queued: UUID
    active: Assignment
    cancelled: UUID
    session: UUID
    closed_session: UUID
    stranger_token: str
    stranger_task: UUID
    stranger_session: UUID


def set_scene() -> Scene:
    """Fill the ledger, and keep house once."""
    record_turn(using=USING)
    worker = Worker()
    submit_task(queue="work")
    active = worker.acquire_one()
    cancelled = submit_task()
    cancel([cancelled], using=USING)
    closed = Worker()
    close_session(closed.session_id, using=USING)
    stranger_task = submit_task(tenant="other")
    return Scene(
        token=make_token(),
        queued=submit_task(),
        active=active,
        cancelled=cancelled,
        session=worker.session_id,
        closed_session=closed.session_id,
        stranger_token=make_token(tenant="other"),
        stranger_task=stranger_task,
        stranger_session=Worker(tenant="other").session_id,
    )


def new_task(**members: Any) -> dict[str, Any]:
    """Return the body that submits a task of the tests' program."""
    return {"program": PROGRAM, "version": VERSION} | members


def new_session(**members: Any) -> dict[str, Any]:
    """Return the body that opens a session with the tests' program."""
    catalogue = [{"name": PROGRAM, "version": VERSION, "entry_point": "tests.programs:work"}]
    opening = {"name": "tests", "host": "localhost", "pid": 1, "version": "0", "concurrency": 8, "catalogue": catalogue}
    return opening | members


def owner(assignment: Assignment) -> dict[str, Any]:
    """Return the proof of an assignment's authority."""
    return {
        "task_id": str(assignment.task_id),
        "number": assignment.number,
        "token": str(assignment.token),
    }


def settlement(assignment: Assignment, **members: Any) -> dict[str, Any]:
    """Return the settlement of an assignment's success."""
    return owner(assignment) | {"outcome": "succeeded", "result": "null"} | members


def unknown() -> str:
    return str(uuid4())


def digest() -> dict[str, tuple[int, str]]:
    """Return a count and digest of each of Ledgence's tables, but for when tokens were used last."""
    tables = execute("select relname from pg_class where relname like 'ledgence\\_%' and relkind = 'r' order by 1")
    found = {}
    for (table,) in tables:
        row = "to_jsonb(t) - 'last_used_at'"
        lines = [line for (line,) in execute(f"select ({row})::text from {table} t order by 1")]  # noqa: S608 - as listed
        found[table] = len(lines), md5("\n".join(lines).encode(), usedforsecurity=False).hexdigest()
    return found
