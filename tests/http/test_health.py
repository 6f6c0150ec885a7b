"""What the task service says of itself: that it answers, and whether what it needs is there."""

import pytest

from ledgence.housekeeping import SILENCE_SECONDS_MAX, Housekeeping, record_turn
from ledgence.operations.expire import expire
from tests.http.scene import Scene
from tests.http.site import Site
from tests.ledger.actors import USING, execute
from tests.ledger.rivals import Rival


def reasons(site: Site) -> list[str]:
    answer = site.ask("GET", "health/ready")
    status = "ready" if answer.status == 200 else "not ready"
    assert answer.assert_ok(answer.status)["status"] == status
    found: list[str] = answer.json.get("reasons", [])
    assert (answer.status == 200) == (found == [])
    return found


def test_it_is_not_ready_until_somebody_has_kept_house(site: Site, scene: Scene) -> None:
    execute("delete from ledgence_housekeepingturn")
    assert reasons(site) == [
        "housekeeping: nobody has ever run it; start manage.py ledgence_recover, or a worker with a database"
    ]
    record_turn(using=USING)
    assert reasons(site) == []


def test_it_is_not_ready_when_nobody_keeps_house_any_more(site: Site, scene: Scene) -> None:
    execute(
        "update ledgence_housekeepingturn set turned_at = now() - make_interval(secs => %s)", [SILENCE_SECONDS_MAX - 5]
    )
    assert reasons(site) == []
    execute("update ledgence_housekeepingturn set turned_at = now() - interval '100 s'")
    [reason] = reasons(site)
    assert reason.startswith("housekeeping: nobody has run it for 10")


def test_a_lease_that_cannot_be_ended_does_not_make_it_unready(
    site: Site, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody's transaction holds the row: every process would be taken out of service for it."""
    execute("update ledgence_lease set expires_at = now() - interval '1 h', bound_at = now() - interval '1 h'")
    housekeeping = Housekeeping(USING)
    monkeypatch.setattr(housekeeping._connections, "use", lambda role: None)
    with Rival() as rival, rival.transaction():
        rival.execute("select * from ledgence_lease for update")
        assert expire(using=USING) == 0
        housekeeping.turn()
        assert reasons(site) == []
