"""The health pages: alive while the loop turns, ready while work is taken, with reasons when not."""

import json
import urllib.error
import urllib.request
from uuid import uuid4

import pytest

from ledgence_worker.errors import InvalidInput
from ledgence_worker.health import HealthServer, Vitals
from ledgence_worker.protocol import Session
from ledgence_worker.stopping import Stopping
from tests.worker.fakes import FakeClock


class Fixture:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.stopping = Stopping(25.0, self.clock, lambda: None)
        self.vitals = Vitals(self.clock, self.stopping, acquire_wait_seconds=20.0)
        self.turned_at = self.answered_at = self.clock.now
        self.is_blocked = False

    def open(self, lease_seconds=60.0) -> None:
        self.vitals.session = Session(
            tenant="default",
            namespace="default",
            session_id=uuid4(),
            lease_seconds=lease_seconds,
            cleanup_seconds=30,
            remaining_seconds=1000,
        )
        self.vitals.turned_at = lambda: self.turned_at
        self.vitals.answered_at = lambda: self.answered_at
        self.vitals.is_blocked = lambda: self.is_blocked


@pytest.fixture
def fixture():
    return Fixture()


def test_starting_worker_is_alive_and_not_ready(fixture):
    assert fixture.vitals.live_problems() == []
    assert fixture.vitals.ready_problems() == ["no session is open yet"]


def test_working_worker_is_ready(fixture):
    fixture.open()
    assert fixture.vitals.live_problems() == []
    assert fixture.vitals.ready_problems() == []


def test_loop_that_stands_still_is_dead(fixture):
    fixture.open()
    fixture.clock.advance(10)
    assert fixture.vitals.live_problems() == []
    fixture.clock.advance(2)
    assert fixture.vitals.live_problems() == ["the main loop has not turned for 12 s"]
    assert fixture.vitals.ready_problems() == ["the main loop has not turned for 12 s"]


@pytest.mark.parametrize(("lease", "patience"), [(60.0, 120.0), (2.0, 30.0)])
def test_silent_service_makes_it_unready(fixture, lease, patience):
    fixture.open(lease)
    fixture.clock.advance(patience)
    fixture.turned_at = fixture.clock.now
    assert fixture.vitals.ready_problems() == []
    fixture.clock.advance(1)
    assert fixture.vitals.ready_problems() == [f"the task service has not answered for {patience + 1:.0f} s"]


def test_stopping_and_quarantine_are_reasons(fixture):
    fixture.open()
    fixture.stopping.request("renewer failed")
    fixture.stopping.update(fixture.clock.now)
    fixture.is_blocked = True
    assert fixture.vitals.ready_problems() == [
        "stopping: renewer failed",
        "every slot is quarantined: processes could not be confirmed gone",
    ]


def ask(port: int, path: str):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:  # noqa: S310
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_pages_are_served_as_json(fixture):
    fixture.open()
    server = HealthServer(0, fixture.vitals)
    try:
        assert ask(server.port, "/health/live") == (200, {"status": "ok", "reasons": []})
        assert ask(server.port, "/health/ready?x=1") == (200, {"status": "ok", "reasons": []})
        fixture.is_blocked = True
        code, body = ask(server.port, "/health/ready")
        assert code == 503
        assert json.loads(body)["status"] == "failing"
        assert ask(server.port, "/health/live")[0] == 200
        assert ask(server.port, "/")[0] == 404
    finally:
        server.close()


def test_closed_server_frees_its_port(fixture):
    server = HealthServer(0, fixture.vitals)
    server.close()
    again = HealthServer(server.port, fixture.vitals)
    again.close()


def test_a_port_that_is_taken_is_named(fixture):
    server = HealthServer(0, fixture.vitals)
    try:
        with pytest.raises(InvalidInput, match=f"port {server.port} cannot be used"):
            HealthServer(server.port, fixture.vitals)
    finally:
        server.close()


def test_a_silent_broker_is_told_by_its_queue(fixture):
    fixture.open()
    fixture.vitals.silences = lambda: {"far": "41 s: gone"}
    assert fixture.vitals.ready_problems() == ["the broker of queue far has not answered for 41 s: gone"]
    assert fixture.vitals.live_problems() == []
