"""System checks: each tells its own fault, and none when all is well."""

import sys
from pathlib import Path
from uuid import uuid4

import pytest
from django.core.checks import run_checks
from django.db import connection, connections
from django.test import override_settings
from django.urls import include, path

from ledgence import checks
from ledgence.operations.publishers import record_publisher
from tests.ledger.actors import execute
from tests.ledger.publishers import route


def found(**options: object) -> list[str]:
    return [str(message.id) for message in run_checks(tags=["ledgence"], **options)]  # type: ignore[arg-type]


def test_a_sound_project_has_no_messages() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"LEASE_SECONDS": 1}, "renewal needs at least"),
        ({"LEASE": 60}, "unknown settings: LEASE"),
        ({"LEASE_SECONDS": "60"}, "LEDGENCE['LEASE_SECONDS'] is '60'; it must be int or float."),
        ({"LEASE_SECONDS": None}, "must be int or float."),
        ({"TIMEOUT_SECONDS": "never"}, "must be int or float or None."),
        ({"MAX_ATTEMPTS": True}, "must be int."),
        ({"RETRY_ON": "lost"}, "must be tuple or list."),
        (["LEASE_SECONDS"], "LEDGENCE must be a dict, not list."),
    ],
)
def test_settings_that_cannot_be_used_are_told(value: object, words: str) -> None:
    with override_settings(LEDGENCE=value):
        [message] = run_checks(tags=["ledgence"])
    assert message.id == "ledgence.E001"
    assert words in message.msg


def test_settings_of_every_type_are_taken() -> None:
    given = {"LEASE_SECONDS": 30, "TIMEOUT_SECONDS": None, "RETRY_ON": ["lost"], "HINTS": False, "MAX_ATTEMPTS": 5}
    with override_settings(LEDGENCE=given):
        assert found() == []


def test_a_database_that_does_not_exist_is_told() -> None:
    with override_settings(LEDGENCE={"DATABASE": "ledger"}):
        [message] = run_checks(tags=["ledgence"])
    assert message.id == "ledgence.E002"
    assert "Name one of: default" in str(message.hint)


def test_another_database_than_postgresql_is_told(monkeypatch) -> None:
    monkeypatch.setattr(connection, "vendor", "sqlite", raising=False)
    monkeypatch.setattr(type(connections["default"]), "vendor", "sqlite")
    assert found() == ["ledgence.E003"]


@pytest.mark.parametrize(("level", "expected"), [(1, []), (None, []), (2, ["ledgence.W001"]), (3, ["ledgence.W001"])])
def test_another_isolation_level_is_told(level: int | None, expected: list[str], monkeypatch) -> None:
    monkeypatch.setitem(connections["default"].settings_dict["OPTIONS"], "isolation_level", level)
    assert found() == expected


def test_hints_through_a_transaction_pool_are_told(monkeypatch) -> None:
    monkeypatch.setitem(connections["default"].settings_dict, "DISABLE_SERVER_SIDE_CURSORS", True)
    assert found() == ["ledgence.W002"]
    with override_settings(LEDGENCE={"HINTS": False}):
        assert found() == []


def test_times_without_zone_are_told() -> None:
    with override_settings(USE_TZ=False):
        assert found() == ["ledgence.E004"]


def test_the_neighbours_distribution_is_told(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "ledgence_worker-0.2.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: ledgence-worker\nVersion: 0.2\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert found() == ["ledgence.E005"]


def test_the_neighbours_code_is_told_though_its_distribution_is_not_known(tmp_path: Path, monkeypatch) -> None:
    import ledgence

    (tmp_path / "worker").mkdir()
    (tmp_path / "worker" / "__init__.py").touch()
    monkeypatch.setattr(ledgence, "__path__", [*ledgence.__path__, str(tmp_path)])
    assert found() == ["ledgence.E005"]


def test_our_own_worker_distribution_is_not_taken_for_the_neighbour() -> None:
    assert "ledgence.E005" not in found()


@pytest.mark.django_db
def test_the_servers_version_is_checked_where_databases_are(monkeypatch) -> None:
    assert "ledgence.E006" not in [message.id for message in run_checks(databases=["default"])]
    monkeypatch.setattr(checks, "POSTGRESQL_MIN", 99)
    assert "ledgence.E006" not in [message.id for message in run_checks()]
    assert "ledgence.E006" in [message.id for message in run_checks(databases=["default"])]


@pytest.mark.django_db
def test_an_external_queue_without_a_live_publisher_is_told_where_databases_are() -> None:
    assert "ledgence.W004" not in [message.id for message in run_checks(databases=["default"])]
    queue = route("broker")
    [message] = [message for message in run_checks(databases=["default"]) if message.id == "ledgence.W004"]
    assert message.msg == "External queue default/default/broker has no live publisher: its work reaches no worker."
    assert "manage.py ledgence_publisher" in str(message.hint)
    assert "ledgence.W004" not in [message.id for message in run_checks()]
    record_publisher(uuid4(), queue, answered_seconds_ago=None, failure="", using="default")
    assert "ledgence.W004" not in [message.id for message in run_checks(databases=["default"])]


@pytest.mark.django_db
def test_publishers_are_not_looked_for_before_the_first_migration() -> None:
    execute("alter table ledgence_publisher rename to ledgence_publisher_of_another_version")
    assert "ledgence.W004" not in [message.id for message in run_checks(databases=["default"])]


class Urls:
    """A project's addresses."""

    def __init__(self, *patterns: object) -> None:
        self.urlpatterns = patterns


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("ledgence/", []),
        ("company/ledgence/", []),
        ("tasks/", ["ledgence.W003"]),
        ("", ["ledgence.W003"]),
        ("myledgence/", ["ledgence.W003"]),
        (None, []),
    ],
)
def test_addresses_where_callers_do_not_look_are_told(prefix: str | None, expected: list[str]) -> None:
    patterns = [] if prefix is None else [path(prefix, include("ledgence.urls"))]
    with override_settings(ROOT_URLCONF=Urls(*patterns)):
        messages = run_checks(tags=["urls"])
    assert [message.id for message in messages if str(message.id).startswith("ledgence.")] == expected


def test_a_project_without_addresses_is_sound() -> None:
    with override_settings(ROOT_URLCONF=None):
        assert run_checks(tags=["urls"]) == []
