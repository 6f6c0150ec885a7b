"""The roles of docs/deploy.md can do their parts with what they are granted, nothing beyond, and need all of it."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import Error, ProgrammingError, connection, transaction
from django.test import Client

import ledgence
from ledgence import sql
from ledgence.audit import audit
from ledgence.housekeeping import Housekeeping, record_turn
from ledgence.http.table import ENDPOINTS
from ledgence.operations.cancel import cancel
from ledgence.operations.expire import expire
from ledgence.operations.quarantine import quarantine
from ledgence.operations.sessions import close_session, extend_session
from ledgence.publishing.row import PublisherRow
from ledgence.service import DatabaseTaskService
from ledgence.tokens import Role, issue
from ledgence.worker_connections import WorkerConnections
from ledgence_worker.claims import RefusedMessage
from ledgence_worker.protocol import Outcome
from tests.docs.reading import DOCS, blocks
from tests.ledger.actors import PROGRAM, USING, VERSION, Worker, execute, expire_leases, raised, submit_task
from tests.ledger.publishers import CONFIRMED, FAILED, REFUSED, PublisherActor, route

pytestmark = [pytest.mark.django_db, pytest.mark.process]

[GRANTS] = [block.text for block in blocks(DOCS / "deploy.md") if block.language == "sql"]
OPERATIONS = [block.text for block in blocks(DOCS / "operations.md") if block.language == "sql"]
GRANT = re.compile(r"^GRANT (SELECT|INSERT|UPDATE|DELETE)(?: \(([^)]+)\))? ON ([^;]+?)\s+TO (\w+);", re.MULTILINE)


@pytest.fixture(autouse=True)
def roles(monkeypatch: pytest.MonkeyPatch) -> None:
    """The roles of the page, as long as the test's transaction, on whose one connection everything runs."""
    execute(GRANTS)
    monkeypatch.setattr(WorkerConnections, "use", lambda self, role: connection)


def act_as(role: str) -> None:
    execute(f"SET LOCAL ROLE {role}")


def act_as_owner() -> None:
    execute("RESET ROLE")


class Caller:
    """Calls the task service over HTTP, and remembers what it has called."""

    def __init__(self, token: str) -> None:
        self._client = Client(headers={"Authorization": f"Bearer {token}"})
        self.called: set[tuple[str, str]] = set()

    def __call__(self, method: str, path: str, body: object = None) -> Any:
        # A path names at most one id; of what comes after a question mark nothing depends.
        self.called.add((method, re.sub(r"[0-9a-f-]{36}", "{id}", path.partition("?")[0])))
        content = "" if body is None else json.dumps(body)
        reply = self._client.generic(method, f"/ledgence/v1/{path}", content, "application/json")
        assert reply.status_code in (200, 201), f"{method} {path}: {reply.content.decode()}"
        return json.loads(reply.content)


def new_task(**more: object) -> dict[str, object]:
    return {"program": PROGRAM, "version": VERSION, "idempotency_key": str(uuid4()), "retry_on": ["failed"]} | more


def serve_over_http() -> set[tuple[str, str]]:
    """Let ledgence_web answer each kind of request, with each consequence; return what was called."""
    issued, token = issue(name="all", roles=[*Role], tenant="default", namespace="default", using=USING)
    call, session = Caller(token), f"sessions/{uuid4()}"
    record_turn(using=USING)
    act_as("ledgence_web")
    call("PUT", session, {"name": "w", "host": "h", "pid": 1, "version": "1", "concurrency": 8, "catalogue": CATALOGUE})
    done, again, given_back, late, active = (
        call("POST", "tasks", new_task(retry_on=["failed"]))["id"] for _ in "12345"
    )
    for _ in ("first", "again"):
        work = call("POST", f"{session}/acquire", {"channel": 0, "sequence": 1, "capacity": 5})["assignments"]
    owners = {one["task_id"]: {name: one[name] for name in ("task_id", "number", "token")} for one in work}
    assert owners.keys() == {done, again, given_back, late, active}
    for what in ("authorize", "renew"):
        call("POST", f"{session}/{what}", {"owners": [owners[done]]})
    end: dict[str, object] = {"outcome": "succeeded", "result": "1"}
    assert settled(call("POST", f"{session}/settle", {"settlements": [owners[done] | end]})) == "succeeded"
    end = {"outcome": "failed", "report": {"error": {"classes": ["failed"], "message": "no", "traceback": ""}}}
    assert settled(call("POST", f"{session}/settle", {"settlements": [owners[again] | end]})) == "retry"
    assert settled(call("POST", f"{session}/release", {"owners": [owners[given_back]]})) == "retry"
    assert call("POST", f"tasks/{active}/cancel")["status"] == "requested"
    act_as_owner()
    expire_leases(UUID(late))
    act_as("ledgence_web")
    assert settled(call("POST", f"{session}/settle", {"settlements": [owners[late] | end]})) == ""
    operate(call, done)
    deliver_over_http(call, session)
    keep_house()
    for what in ("extend", "close"):
        call("POST", f"{session}/{what}")
    call("GET", f"{session}/drained")
    for statement in ("find_sessions_to_wake", "record_empty_answers"):
        sql.run(statement, USING, {"sessions": [UUID(session[9:])], "channels": [0], "sequences": [2]})
    sql.run("find_ended_tasks", USING, {"tasks": [UUID(done)]})
    act_as_owner()
    issued.refresh_from_db()
    assert issued.last_used_at
    return call.called


def deliver_over_http(call: Caller, session: str) -> None:
    """Claim work that is not due, and record a message that can never be claimed."""
    act_as_owner()
    route("external")
    act_as("ledgence_web")
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    task = call("POST", "tasks", new_task(queue="external", run_after=later))["id"]
    claim = {"channel": 1, "sequence": 1, "dispatches": [{"task_id": task, "generation": 1}]}
    [answer] = call("POST", f"{session}/dispatch/claim", claim)["answers"]
    assert answer["status"] == "deferred"
    claim = {"channel": 1, "sequence": 2, "dispatches": [{"task_id": task, "generation": 2}]}
    [answer] = call("POST", f"{session}/dispatch/claim", claim)["answers"]
    assert answer["status"] == "not_found"
    message = {"message_id": "m", "reason": "malformed", "detail": "no JSON", "body": "x"}
    for _ in range(2):
        call("POST", f"{session}/dispatch/quarantine", {"queue": "external", "messages": [message]})


def keep_house() -> None:
    """Let a role do all of housekeeping, its warnings too."""
    housekeeping = Housekeeping(USING)
    housekeeping._watch_at = 0.0
    housekeeping.turn()
    # With counts it would only log that it may not.
    [(queue,)] = execute("SELECT id FROM ledgence_queue LIMIT 1")
    counts = dict.fromkeys(("claimed", "succeeded", "failed", "retried", "cancelled"), [1])
    sql.run("insert_rollups", USING, {"ages": [0.0], "queues": [queue], "waits": ["{}"], **counts})


CATALOGUE = [{"name": PROGRAM, "version": VERSION, "entry_point": "tests.programs:work"}]


def settled(reply: Any) -> str:
    return str(reply["settled"][0].get("consequence", ""))


def operate(call: Caller, done: str) -> None:
    """Look at tasks, and cancel and requeue one."""
    [one] = call("POST", "tasks/batch", {"tasks": [new_task(queue="new", program="new", max_attempts=7)]})["tasks"]
    assert call("POST", f"tasks/{one['id']}/cancel")["status"] == "cancelled"
    body = {"action_id": str(uuid4()), "revision": 1, "reason": "tests"}
    for _ in range(2):
        assert call("POST", f"tasks/{one['id']}/requeue", body)["status"] == "requeued"
    for path in (f"tasks/{done}", f"tasks/{done}/result", f"tasks/{done}/attempts", "tasks", "tasks?state=active"):
        call("GET", path)
    for path in ("health/live", "health/ready", "openapi.json"):
        call("GET", path)


def work_beside_the_database() -> None:
    """Let ledgence_work do what a worker, its programs and housekeeping do."""
    act_as("ledgence_work")
    worker = Worker()
    tasks = [submit_task(retry_on=[Outcome.FAILED, Outcome.LOST], idempotency_key=str(uuid4())) for _ in range(6)]
    done, again, given_back, late, active, lost = worker.acquire(6)
    assert [one.task_id for one in (done, again, given_back, late, active, lost)] == tasks
    replayed = worker.send(worker.sequence, 6)
    assert replayed is not None
    assert len(replayed.assignments) == 6
    assert [answer.status for answer in worker.claim((done.task_id, 1)).answers] == ["already_handed_off"]
    assert worker.authorize(done).is_granted
    assert worker.renew(done).status == "renewed"
    assert worker.settle(done, result="1").consequence == "succeeded"
    assert worker.settle(again, Outcome.FAILED, error=raised("failed")).consequence == "retry"
    assert worker.release(given_back)[0].status == "accepted"
    assert cancel([active.task_id], using=USING)[active.task_id] == "requested"
    expire_leases(late.task_id, lost.task_id)
    assert worker.settle(late, Outcome.FAILED).status == "ownership_lost"
    assert expire(using=USING) == 2
    deliver_beside_the_database(worker)
    keep_house()
    service = DatabaseTaskService(USING, listen=False)
    assert service.is_drained(worker.session_id) is False
    service.interrupt()
    handle = ledgence.submit("new", version="1", queue="new", max_attempts=7)
    assert handle.cancel() == "cancelled"
    assert ledgence.get(done.task_id).result() == 1
    sql.run("find_served_queues", USING, {"session": worker.session_id})
    extend_session(worker.session_id, using=USING)
    close_session(worker.session_id, using=USING)
    act_as_owner()


def deliver_beside_the_database(worker: Worker) -> None:
    act_as_owner()
    route("external")
    act_as("ledgence_work")
    later = submit_task(queue="external", run_after=datetime.now(UTC) + timedelta(hours=1))
    assert [answer.status for answer in worker.claim((later, 1)).answers] == ["deferred"]
    for _ in range(2):
        message = RefusedMessage(message_id="m", reason="malformed", detail="no JSON", body="x")
        quarantine(worker.session_id, "external", [message], using=USING)


def publish_due_work() -> None:
    """Let ledgence_publish route a queue, publish its work with every result, and do what housekeeping does."""
    publisher = act_as_publisher("external")
    act_as_owner()
    tasks = [submit_task(queue="external", retry_on=[Outcome.LOST]) for _ in range(4)]
    worker = Worker()
    lost = [worker.claim((submit_task(queue="external", **options), 1)) for options in ({"max_attempts": 1}, {})]
    expire_leases(*(one.assignments[0].task_id for one in lost))
    act_as("ledgence_publish")
    leased = publisher.lease()
    assert {one.task_id for one in leased} == set(tasks)
    for one, status in zip(leased, (CONFIRMED, REFUSED, FAILED, None), strict=True):
        publisher.record(one, status=status)
    publisher.publications.seconds_to_next(1.0)
    row = PublisherRow(publisher.queue, using=USING)
    for _ in range(2):
        row.renew(answered_at=0.0, failure="")
    row.delete()
    assert expire(using=USING) == 2
    keep_house()
    act_as_owner()


def act_as_publisher(queue: str) -> PublisherActor:
    act_as("ledgence_publish")
    return PublisherActor(route(queue))


def look() -> None:
    """Let ledgence_read do what operators with psql do."""
    submit_task()
    Worker().acquire(1)
    act_as("ledgence_read")
    for statement in OPERATIONS:
        execute(statement)
    assert list(audit(using=USING)) == []
    for table in (
        "task_state",
        "channel",
        "policy",
        "deliveryevent",
        "operatoraction",
        "operatoractiontarget",
        "housekeepingturn",
        "publisher",
        "quarantinedmessage",
        "rollup",
    ):
        execute(f"SELECT * FROM ledgence_{table}")  # noqa: S608 - the names above
    act_as_owner()


PARTS: dict[str, Callable[[], object]] = {
    "ledgence_web": serve_over_http,
    "ledgence_work": work_beside_the_database,
    "ledgence_publish": publish_due_work,
    "ledgence_read": look,
}


def test_the_roles_are_these() -> None:
    assert re.findall(r"CREATE ROLE (\w+)", GRANTS) == list(PARTS)


def test_the_task_service_answers_everything_with_its_role() -> None:
    assert serve_over_http() == {(one.method, one.path) for one in ENDPOINTS} | {("GET", "openapi.json")}


def test_workers_and_housekeeping_do_their_part_with_theirs() -> None:
    work_beside_the_database()


def test_the_publisher_does_its_part_with_its_role() -> None:
    publish_due_work()


def test_people_read_with_theirs() -> None:
    look()


@pytest.mark.parametrize(
    ("role", "statement"),
    [
        ("ledgence_web", "UPDATE ledgence_task SET data = '1'"),
        ("ledgence_web", "DELETE FROM ledgence_task"),
        ("ledgence_web", "DELETE FROM ledgence_attempt"),
        ("ledgence_web", "UPDATE ledgence_attempt SET token = NULL"),
        ("ledgence_web", "UPDATE ledgence_apitoken SET roles = '{work}'"),
        ("ledgence_web", "UPDATE ledgence_operatoraction SET reason = ''"),
        ("ledgence_web", "UPDATE ledgence_queue SET paused_by = ''"),
        ("ledgence_web", "SELECT * FROM auth_user"),
        ("ledgence_work", "UPDATE ledgence_task SET data = '1'"),
        ("ledgence_work", "SELECT * FROM ledgence_apitoken"),
        ("ledgence_work", "SELECT * FROM ledgence_operatoraction"),
        ("ledgence_publish", "UPDATE ledgence_task SET data = '1'"),
        ("ledgence_publish", "SELECT * FROM ledgence_apitoken"),
        ("ledgence_publish", "UPDATE ledgence_queue SET paused_by = ''"),
        ("ledgence_publish", "DELETE FROM ledgence_deliveryintent"),
        ("ledgence_read", "SELECT * FROM ledgence_apitoken"),
        ("ledgence_read", "UPDATE ledgence_task SET priority = 1"),
        ("ledgence_read", "INSERT INTO ledgence_queue DEFAULT VALUES"),
        ("ledgence_read", "DELETE FROM ledgence_lease"),
    ],
)
def test_nothing_beyond_is_granted(role: str, statement: str) -> None:
    act_as(role)
    with pytest.raises(ProgrammingError, match="permission denied"), transaction.atomic():
        execute(statement)


def granted() -> list[tuple[str, str]]:
    """Return each single thing that the page grants: (what, to whom)."""
    found = []
    for privilege, columns, tables, role in GRANT.findall(GRANTS):
        for table in re.split(r",\s*", tables):
            found += [
                (f"{privilege}{f' ({column})' if column else ''} ON {table}", role)
                for column in re.split(r",\s*", columns)
            ]
    return found


@pytest.mark.parametrize("role", PARTS)
def test_each_grant_is_needed(role: str) -> None:
    given = [what for what, whom in granted() if whom == role]
    assert len(given) > 10
    idle = []
    for what in given:
        with transaction.atomic():
            execute(f"REVOKE {what} FROM {role}")
            try:
                with transaction.atomic():
                    PARTS[role]()
                idle.append(what)
            except (Error, AssertionError, ledgence.LedgenceError):
                pass
            transaction.set_rollback(True)
    assert idle == []
