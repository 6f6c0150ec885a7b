"""Notifications to the service manager."""

import socket

import pytest

from ledgence_worker.systemd import ServiceManager


@pytest.fixture
def receiver(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.settimeout(5)
        receiver.bind(str(tmp_path / "notify"))
        yield receiver


def test_states_are_sent(receiver):
    manager = ServiceManager({"NOTIFY_SOCKET": receiver.getsockname()})
    manager.ready()
    manager.stopping()
    assert [receiver.recv(64), receiver.recv(64)] == [b"READY=1", b"STOPPING=1"]


def test_beats_come_at_half_the_watchdog_time(receiver):
    manager = ServiceManager({"NOTIFY_SOCKET": receiver.getsockname(), "WATCHDOG_USEC": "10000000"})
    for now in (100.0, 104.9, 105.0):
        manager.beat(now)
    manager.ready()
    assert [receiver.recv(64) for _ in range(3)] == [b"WATCHDOG=1", b"WATCHDOG=1", b"READY=1"]


def test_abstract_addresses_are_understood():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.settimeout(5)
        receiver.bind("\0ledgence-test-notify")
        ServiceManager({"NOTIFY_SOCKET": "@ledgence-test-notify"}).ready()
        assert receiver.recv(64) == b"READY=1"


def test_manager_that_is_gone_does_no_harm(tmp_path, caplog):
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "nobody")}).ready()
    assert "service manager not told" in caplog.text


def test_without_a_manager_nothing_is_said(caplog):
    manager = ServiceManager({"WATCHDOG_USEC": "10000000"})
    manager.ready()
    manager.beat(1.0)
    assert caplog.text == ""
