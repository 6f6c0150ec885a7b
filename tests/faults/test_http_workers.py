"""Workers over HTTP whose every operation meets each fault of the way: each attempt runs once, and nothing is lost."""

import pytest

from ledgence.handle import TaskHandle
from ledgence.models import State, WorkerSession
from ledgence_worker.stopping import ExitCode
from tests.faults.http_proxy import EVERY_FAULT, Fault, HttpProxy
from tests.faults.remote_site import RemoteSite
from tests.faults.worker_process import WorkerProcess

pytestmark = [pytest.mark.process, pytest.mark.slow]

#: Everything that a worker asks for which changes something; the extension of its session has a test of its own.
OPERATIONS = ("open", "acquire", "exchange", "renew", "settle", "release", "close")
LEASE = 5.0
#: So that a reply that is held back costs a second and no more.
PATIENCE = ("--answer-timeout", "1", "--acquire-wait", "0.5")


@pytest.fixture(scope="module")
def server_environment() -> dict[str, str]:
    return {"LEDGENCE_LEASE_SECONDS": str(LEASE)}


@pytest.fixture
def lease_seconds() -> float:
    return LEASE


class Scenario:
    """A worker's whole life: it runs much, keeps something for long, is stopped, settles one end and gives one back."""

    def __init__(self, site: RemoteSite, proxy: HttpProxy) -> None:
        self.site, self.proxy = site, proxy
        self.quick = [site.submit("echo", number) for number in range(20)]
        self.finishing = site.submit("wait", site.gate("finishing"))
        self.unfinished = site.submit("wait-deaf", site.gate("unfinished"))

    def play(self, worker: WorkerProcess) -> None:
        site = self.site
        worker.wait_until_started()
        for task in (self.finishing, self.unfinished):
            site.wait_for_start(task)
        for task in self.quick:
            assert site.wait_for_end(task) is State.SUCCEEDED
        site.wait_until(lambda: self.proxy.pending().keys() <= {"settle", "release", "close"}, "every renewal")
        worker.stop_soon()
        worker.wait_for_log("worker draining")
        site.open(site.gate("finishing"))
        assert worker.wait() == ExitCode.CLEAN
        assert self.proxy.pending() == {}, "not everything that was planned has happened"
        site.open(site.gate("unfinished"))
        heir = site.start_worker("--drain")
        assert heir.wait() == ExitCode.CLEAN

    def check(self) -> None:
        ends = self.site.ends
        assert [task.result() for task in self.quick] == list(range(20))
        assert all(ends(task) == [(1, "succeeded")] for task in [*self.quick, self.finishing])
        assert ends(self.unfinished) == [(1, "interrupted"), (2, "succeeded")]
        assert not WorkerSession.objects.filter(closed_at=None).exists()


@pytest.mark.parametrize("fault", EVERY_FAULT)
def test_each_operation_meets_it_once(proxied: RemoteSite, http_proxy: HttpProxy, fault: Fault) -> None:
    for operation in OPERATIONS:
        http_proxy.inflict(operation, fault)
    scenario = Scenario(proxied, http_proxy)
    scenario.play(proxied.start_worker("--grace", "0.5", *PATIENCE, concurrency=3))
    scenario.check()
    assert sorted(http_proxy.inflicted) == sorted((operation, fault) for operation in OPERATIONS)


def test_each_operation_meets_several_in_a_row(proxied: RemoteSite, http_proxy: HttpProxy) -> None:
    for operation in OPERATIONS:
        http_proxy.inflict(operation, Fault.LOST_REPLY, Fault.PAGE_502_BEFORE, Fault.RESET_AFTER)
    scenario = Scenario(proxied, http_proxy)
    scenario.play(proxied.start_worker("--grace", "0.5", *PATIENCE, concurrency=3))
    scenario.check()


def test_a_worker_with_django_meets_them_alike(proxied: RemoteSite, http_proxy: HttpProxy) -> None:
    for operation in OPERATIONS:
        http_proxy.inflict(operation, Fault.LOST_REPLY, Fault.CUT_REPLY)
    scenario = Scenario(proxied, http_proxy)
    scenario.play(proxied.start_django_worker("--grace", "0.5", *PATIENCE, concurrency=3))
    scenario.check()


@pytest.mark.parametrize("operation", ["acquire", "exchange"])
def test_work_flows_through_every_fault_in_turn(proxied: RemoteSite, http_proxy: HttpProxy, operation: str) -> None:
    for fault in EVERY_FAULT:
        http_proxy.inflict(operation, fault, None)
    worker = proxied.start_worker(*PATIENCE, concurrency=2)
    tasks: list[TaskHandle] = []
    while http_proxy.pending():
        # Idle in between, so that both ways to get work are taken.
        tasks += (batch := [proxied.submit("echo", number) for number in range(6)])
        for task in batch:
            assert proxied.wait_for_end(task) is State.SUCCEEDED
    assert worker.stop() == ExitCode.CLEAN
    assert all(proxied.ends(task) == [(1, "succeeded")] for task in tasks)
