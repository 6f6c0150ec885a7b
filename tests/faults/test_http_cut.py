"""A network that is cut for longer than a lease: user code has stopped before anybody else is given its task."""

import time

import pytest

from ledgence.models import State
from ledgence_worker.stopping import CLOSING_SECONDS, ExitCode
from tests.faults.http_proxy import HttpProxy
from tests.faults.remote_site import RemoteSite, TaskServer
from tests.faults.site import SHORT_LEASE_SECONDS, short_lease

pytestmark = [pytest.mark.process, pytest.mark.slow]

#: What the cut does to connections: they stay open and nothing comes through, or they are refused.
each_cut = pytest.mark.parametrize("cut", ["silent", "refused"])


@pytest.fixture(scope="module")
def server_environment() -> dict[str, str]:
    return {"LEDGENCE_LEASE_SECONDS": str(SHORT_LEASE_SECONDS)}


def begin_cut(proxy: HttpProxy, cut: str) -> None:
    proxy.freeze() if cut == "silent" else proxy.cut()


def end_cut(proxy: HttpProxy, cut: str) -> None:
    proxy.thaw() if cut == "silent" else proxy.mend()


@short_lease
@each_cut
@pytest.mark.parametrize("program", ["beat", "beat-deaf"])
def test_user_code_has_stopped_before_the_task_is_handed_to_another(
    proxied: RemoteSite, http_proxy: HttpProxy, task_server: TaskServer, cut: str, program: str
) -> None:
    housekeeping = proxied.start_housekeeping()
    cut_off = proxied.worker()
    task = proxied.submit(program, proxied.gate())
    process = proxied.wait_for_start(task)
    proxied.wait_until(lambda: http_proxy.seen["renew"], "a renewal")
    begin_cut(http_proxy, cut)
    proxied.server_url = task_server.url
    heir = proxied.worker()
    proxied.wait_for_start(task, 2)
    assert process not in [child.pid for child in cut_off.children()]
    assert proxied.beat_before_next(task, 1)
    proxied.open(proxied.gate())
    assert proxied.wait_for_end(task) is State.SUCCEEDED
    end_cut(http_proxy, cut)
    # It comes back, and takes work again.
    assert heir.stop() == ExitCode.CLEAN
    assert proxied.wait_for_end(proxied.submit("echo")) is State.SUCCEEDED
    assert [one.stop() for one in (cut_off, housekeeping)] == [ExitCode.CLEAN] * 2
    assert proxied.ends(task) == [(1, "lost"), (2, "succeeded")]


@short_lease
@each_cut
def test_a_result_that_comes_after_the_lease_is_refused_and_kept(
    proxied: RemoteSite, http_proxy: HttpProxy, cut: str
) -> None:
    housekeeping = proxied.start_housekeeping()
    # Of an answer that came after long nobody could tell whether its leases are still good: they would be given back.
    worker = proxied.worker("--answer-timeout", "1")
    task = proxied.submit("wait", proxied.gate())
    proxied.wait_for_start(task)
    begin_cut(http_proxy, cut)
    proxied.open(proxied.gate())
    proxied.wait_until(lambda: proxied.ends(task)[0] == (1, "lost"), "the lease to expire")
    end_cut(http_proxy, cut)
    assert proxied.wait_for_end(task) is State.SUCCEEDED
    first, second = task.attempts
    assert (first.late_outcome, first.late_result) == ("succeeded", 1)
    assert (second.cause, second.outcome) == ("lost", "succeeded")
    assert [one.stop() for one in (worker, housekeeping)] == [ExitCode.CLEAN] * 2


@short_lease
def test_a_stop_while_nothing_comes_through_ends_within_its_bound(
    proxied: RemoteSite, http_proxy: HttpProxy, task_server: TaskServer
) -> None:
    housekeeping = proxied.start_housekeeping()
    worker = proxied.worker("--grace", "1")
    task = proxied.submit("beat-deaf", proxied.gate())
    proxied.wait_for_start(task)
    http_proxy.freeze()
    began = time.monotonic()
    # What could not be told is left to expire, and the exit code says so.
    assert worker.stop() == ExitCode.FORCED
    assert time.monotonic() - began < 1 + CLOSING_SECONDS + 10
    proxied.server_url = task_server.url
    heir = proxied.worker()
    proxied.wait_for_start(task, 2)
    assert proxied.beat_before_next(task, 1)
    proxied.open(proxied.gate())
    assert proxied.wait_for_end(task) is State.SUCCEEDED
    assert [one.stop() for one in (heir, housekeeping)] == [ExitCode.CLEAN] * 2


@short_lease
@each_cut
def test_a_cut_shorter_than_the_lease_costs_nothing(proxied: RemoteSite, http_proxy: HttpProxy, cut: str) -> None:
    worker = proxied.worker()
    task = proxied.submit("wait", proxied.gate())
    proxied.wait_for_start(task)
    expires_at = proxied.wait_for_lease(task).expires_at
    renewals = http_proxy.seen["renew"]
    begin_cut(http_proxy, cut)
    worker.wait_for_log("task service not available command=renew")
    end_cut(http_proxy, cut)
    proxied.wait_until(lambda: http_proxy.seen["renew"] > renewals, "another renewal")
    proxied.wait_until(lambda: proxied.wait_for_lease(task).expires_at > expires_at, "a longer lease")
    proxied.open(proxied.gate())
    assert proxied.wait_for_end(task) is State.SUCCEEDED
    assert proxied.ends(task) == [(1, "succeeded")]
    assert worker.stop() == ExitCode.CLEAN
