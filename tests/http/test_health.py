"""What the task service says of itself: that it answers, and whether what it needs is there."""

import json
from uuid import uuid4

import pytest

from ledgence.housekeeping import SILENCE_SECONDS_MAX, Housekeeping, record_turn
from ledgence.http.endpoint import Request
from ledgence.http.health import ready
from ledgence.operations.expire import expire
from ledgence.operations.publishers import record_publisher
from ledgence.service import DatabaseTaskService
from ledgence.worker_connections import RequestConnections
from tests.http.scene import Scene
from tests.ledger.actors import USING, execute, submit_task
from tests.ledger.publishers import route
from tests.ledger.rivals import Rival


def reasons() -> list[str]:
    """Ask anew: over HTTP an answer is kept for a second."""
    service = DatabaseTaskService(USING, listen=False, connections=RequestConnections(USING))
    reply = ready(Request(service=service, scope=None))
    document = json.loads(reply.body)
    found: list[str] = document.get("reasons", [])
    assert (reply.status, document["status"]) == ((503, "not ready") if found else (200, "ready"))
    return found


def test_it_is_not_ready_until_somebody_has_kept_house(scene: Scene) -> None:
    execute("delete from ledgence_housekeepingturn")
    assert reasons() == [
        "housekeeping: nobody has ever run it; start manage.py ledgence_recover or a worker with a database, "
        "or wrap the ASGI application"
    ]
    record_turn(using=USING)
    assert reasons() == []


def test_it_is_not_ready_when_nobody_keeps_house_any_more(scene: Scene) -> None:
    execute(
        "update ledgence_housekeepingturn set turned_at = now() - make_interval(secs => %s)", [SILENCE_SECONDS_MAX - 5]
    )
    assert reasons() == []
    execute("update ledgence_housekeepingturn set turned_at = now() - interval '100 s'")
    [reason] = reasons()
    assert reason.startswith("housekeeping: nobody has run it for 10")


def test_a_lease_that_cannot_be_ended_does_not_make_it_unready(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody's transaction holds the row: every process would be taken out of service for it."""
    execute("update ledgence_lease set expires_at = now() - interval '1 h', bound_at = now() - interval '1 h'")
    housekeeping = Housekeeping(USING)
    monkeypatch.setattr(housekeeping._connections, "use", lambda role: None)
    with Rival() as rival, rival.transaction():
        rival.execute("select * from ledgence_lease for update")
        assert expire(using=USING) == 0
        housekeeping.turn()
        assert reasons() == []


def test_an_external_queue_whose_work_waits_for_a_publisher_is_told(scene: Scene) -> None:
    record_turn(using=USING)
    queue = route("broker")
    submit_task(queue="broker")
    # As long as one publisher needs to follow another.
    assert reasons() == []
    execute(
        "update ledgence_deliveryintent set next_publish_at = now() - interval '31 s' where queue_id = %s", [queue.id]
    )
    assert reasons() == [
        "publication: external queue default/default/broker has no live publisher; start manage.py ledgence_publisher "
        "with its route, or give it back with manage.py ledgence_route"
    ]
    record_publisher(uuid4(), queue, answered_seconds_ago=None, failure="", using=USING)
    assert reasons() == []
