"""Programs that meddle with their process's private channel harm nobody but themselves."""

import select
import selectors
import signal
from pathlib import Path

import pytest

from ledgence_worker.pool import StopReason
from ledgence_worker.protocol import Outcome
from tests.worker.processes.conftest import Keeper, Opener, is_alive, wait_until

pytestmark = pytest.mark.process

JUNK = {
    "text": b"Hello, world! This is no frame.".hex(),
    "giant": "ffffffff00000002",
    "header longer than frame": "0000000200000010" + "00" * 16,
    "header not JSON": "0000000200000002" + b"[}".hex(),
    "header not an object": "0000000200000002" + b"[]".hex(),
    "header not UTF-8": "0000000200000002" + "ff00",
    "deep header": "00000fa000000fa0" + "5b" * 4000,
    "empty header": "0000000200000002" + b"{}".hex(),
}


@pytest.mark.parametrize("junk", JUNK.values(), ids=JUNK)
def test_junk_is_a_crash_of_that_attempt_alone(open_pool: Opener, tmp_path: Path, junk: str) -> None:
    keeper = open_pool(concurrency=2)
    neighbour = keeper.start("sleeps", {"path": str(tmp_path / "pid")})
    keeper.noted(tmp_path / "pid")
    work = keeper.start("writes-on-channel", junk)
    ended = keeper.end_of(work)
    assert (ended.outcome, ended.result, ended.confirmed) == (Outcome.CRASHED, None, True)
    assert ended.report.error is not None
    assert ended.report.error.classes == ("ledgence_worker.errors.ProtocolError",)
    assert keeper.run("echo", 1).result == "1"
    keeper.pool.stop(neighbour.task_id, neighbour.number, StopReason.CANCEL)
    assert keeper.end_of(neighbour).outcome is Outcome.CANCELLED


def test_a_forged_end_is_a_crash(keeper: Keeper) -> None:
    ended = keeper.run("forges-end")
    assert (ended.outcome, ended.result) == (Outcome.CRASHED, None)
    assert ended.report.error is not None
    assert ended.report.error.message == "The process sent something else than the end of its invocation."


def test_an_end_that_stops_half_way_is_a_crash(keeper: Keeper) -> None:
    ended = keeper.run("writes-half-a-frame")
    assert (ended.outcome, ended.report.exit_status) == (Outcome.CRASHED, 1)


def test_a_closed_channel_is_a_crash(keeper: Keeper) -> None:
    ended = keeper.run("closes-channel")
    assert (ended.outcome, ended.confirmed) == (Outcome.CRASHED, True)
    assert keeper.run("echo", 1).result == "1"


def test_an_idle_process_that_speaks_is_replaced(keeper: Keeper) -> None:
    pid = keeper.run("speaks-out-of-turn").result
    keeper.until(lambda: not is_alive(int(pid or 0)), "its end")
    keeper.until(lambda: keeper.pool.free == 1, "the slot")
    assert keeper.run("pid").result != pid


def test_a_process_told_gone_before_its_channel_was_read_is_a_crash(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The kernel may report the launcher and the channel in one turn, in either order.
    fleet = keeper.pool._fleet
    keeper.run("echo", 1)
    work = keeper.start("kills-itself", signal.SIGKILL.value)
    [slot] = fleet.slots.values()
    sources = {fleet._launcher.socket, slot.channel}
    wait_until(lambda: sources == set(select.select(sources, (), (), 0)[0]), "the end of the process on both wires")
    ready = fleet._selector.select

    def launcher_first(timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        return sorted(ready(timeout), key=lambda event: event[0].fileobj is not fleet._launcher.socket)

    monkeypatch.setattr(fleet._selector, "select", launcher_first)
    assert keeper.end_of(work).outcome is Outcome.CRASHED
    assert keeper.run("echo", 1).result == "1"
