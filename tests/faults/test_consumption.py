"""Work that comes through a broker, with real publishers and workers, and faults between every pair of steps."""

import os
import signal
import time

import pytest

from ledgence.models import DeliveryIntent, State
from ledgence_project.embedded.environment import CHECKOUT
from ledgence_worker.stopping import ExitCode
from tests.faults.file_broker import FolderBroker, install
from tests.faults.http_proxy import Fault, HttpProxy
from tests.faults.remote_site import RemoteSite
from tests.faults.site import QUEUE, Site, short_lease
from tests.faults.worker_process import WorkerProcess

# Named here since the scenes are asked for by their names, which the database would not see.
pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

PUBLISHER = (str(CHECKOUT / "manage.py"), "ledgence_publisher")


class Routed:
    """The site's queue, routed through a folder: its publisher runs, and workers are told of it."""

    def __init__(self, site: Site) -> None:
        self.site = site
        install(site.folder / "adapters")
        self.broker = FolderBroker(site.folder / "queue")
        self.broker.folder.mkdir()
        config = site.folder / "delivery.toml"
        config.write_text(f'[[routes]]\nqueue = "{QUEUE}"\n[routes.folder]\npath = "{self.broker.folder}"\n')
        self.options = ("--delivery-config", str(config))
        path = os.pathsep.join([str(site.folder / "adapters"), os.environ.get("PYTHONPATH", "")])
        self.variables = {"PYTHONPATH": path}

    def publisher(self) -> WorkerProcess:
        made = self.site.start(self.options, self.site.environment(**self.variables), PUBLISHER)
        made.wait_for_log("publishing queue=")
        return made

    def worker(self, *options: str, concurrency: int = 1) -> WorkerProcess:
        made = self.start_worker(*options, concurrency=concurrency)
        made.wait_until_started()
        return made

    def start_worker(self, *options: str, concurrency: int = 1) -> WorkerProcess:
        own = ("--receive-wait", "1", *self.options, *options)
        return self.site.start_worker(*own, concurrency=concurrency, **self.variables)

    def set(self, name: str, text: str = "") -> None:
        (self.broker.folder / name).write_text(text)

    def clear(self, name: str) -> None:
        (self.broker.folder / name).unlink()

    def await_no_messages(self) -> None:
        self.site.wait_until(lambda: self.broker.left() == 0, "every message to be removed")

    def stop(self, *processes: WorkerProcess) -> None:
        for process in processes:
            process.stop_soon()
        assert [process.wait() for process in processes] == [ExitCode.CLEAN] * len(processes)


@pytest.fixture(params=["in process", "over HTTP"])
def routed(request: pytest.FixtureRequest) -> Routed:
    return Routed(request.getfixturevalue("site" if request.param == "in process" else "remote"))


@pytest.fixture
def routed_here(site: Site) -> Routed:
    """In process, where each test has a lease of its own."""
    return Routed(site)


@pytest.fixture
def proxied_route(proxied: RemoteSite) -> Routed:
    return Routed(proxied)


def test_everything_runs_once_and_nothing_is_left(routed: Routed) -> None:
    publisher = routed.publisher()
    workers = [routed.worker(concurrency=2) for _ in range(2)]
    tasks = [routed.site.submit("echo", number) for number in range(40)]
    assert [routed.site.wait_for_end(task) for task in tasks] == [State.SUCCEEDED] * 40
    routed.await_no_messages()
    assert {end for task in tasks for end in routed.site.ends(task)} == {(1, "succeeded")}
    routed.stop(*workers, publisher)


def test_messages_that_come_five_times_to_three_workers_run_once(routed: Routed) -> None:
    publisher = routed.publisher()
    tasks = [routed.site.submit("echo", number) for number in range(20)]
    routed.site.wait_until(lambda: len(routed.broker.taken()) == 20, "the announcements")
    taken = routed.broker.folder / "taken"
    taken.write_text(taken.read_text() * 5)
    workers = [routed.worker(concurrency=4) for _ in range(3)]
    assert [routed.site.wait_for_end(task) for task in tasks] == [State.SUCCEEDED] * 20
    routed.await_no_messages()
    assert {end for task in tasks for end in routed.site.ends(task)} == {(1, "succeeded")}
    routed.stop(*workers, publisher)


@short_lease
def test_work_of_a_worker_that_is_killed_is_announced_again(routed_here: Routed) -> None:
    routed = routed_here
    publisher = routed.publisher()
    first = routed.worker()
    task = routed.site.submit("wait", routed.site.gate())
    routed.site.wait_for_start(task)
    first.kill()
    heir = routed.worker()
    routed.site.open(routed.site.gate())
    assert routed.site.wait_for_end(task) is State.SUCCEEDED
    assert routed.site.ends(task) == [(1, "lost"), (2, "succeeded")]
    routed.await_no_messages()
    assert len(routed.broker.taken()) == 2
    routed.stop(heir, publisher)


def test_a_worker_that_is_killed_between_receive_and_claim_costs_no_attempt(
    proxied_route: Routed, http_proxy: HttpProxy
) -> None:
    routed = proxied_route
    publisher = routed.publisher()
    http_proxy.inflict_by(lambda operation: Fault.RESET_BEFORE if operation == "claim" else None)
    first = routed.worker()
    task = routed.site.submit("echo")
    routed.site.wait_until(lambda: http_proxy.seen["claim"] > 1, "a repeated claim")
    first.kill()
    http_proxy.inflict_by(lambda operation: None)
    heir = routed.worker()
    assert routed.site.wait_for_end(task) is State.SUCCEEDED
    assert routed.site.ends(task) == [(1, "succeeded")]
    routed.await_no_messages()
    assert routed.broker.times() == [2]
    routed.stop(heir, publisher)


@short_lease
def test_a_worker_that_is_killed_between_claim_and_acknowledgement_costs_a_question(routed_here: Routed) -> None:
    routed = routed_here
    publisher = routed.publisher()
    routed.set("deaf")
    first = routed.worker()
    task = routed.site.submit("wait", routed.site.gate())
    routed.site.wait_for_start(task)
    first.wait_for_log("messages not acknowledged")
    first.kill()
    routed.clear("deaf")
    heir = routed.worker()
    routed.site.open(routed.site.gate())
    assert routed.site.wait_for_end(task) is State.SUCCEEDED
    assert routed.site.ends(task) == [(1, "lost"), (2, "succeeded")]
    routed.await_no_messages()
    routed.stop(heir, publisher)


def test_a_broker_that_goes_away_and_comes_back(routed: Routed) -> None:
    publisher = routed.publisher()
    worker = routed.worker()
    routed.set("down")
    tasks = [routed.site.submit("echo", number) for number in range(5)]
    worker.wait_for_log("broker not available command=receive")
    routed.clear("down")
    assert [routed.site.wait_for_end(task) for task in tasks] == [State.SUCCEEDED] * 5
    worker.wait_for_log("broker answers again")
    routed.stop(worker, publisher)


def test_a_worker_may_start_before_its_broker(routed: Routed) -> None:
    publisher = routed.publisher()
    routed.set("down")
    worker = routed.start_worker()
    worker.wait_until_started()
    assert "broker not available, the worker starts without it" in worker.output
    routed.clear("down")
    assert routed.site.wait_for_end(routed.site.submit("echo")) is State.SUCCEEDED
    routed.stop(worker, publisher)


def test_a_broker_that_cannot_be_used_is_told_by_the_exit_code(routed: Routed) -> None:
    routed.set("refused", "This queue is FIFO.")
    worker = routed.start_worker()
    assert worker.wait() == ExitCode.CONFIGURATION
    assert "This queue is FIFO." in worker.output


def test_a_file_that_routes_nothing_of_it_is_told_by_the_exit_code(routed: Routed) -> None:
    worker = routed.start_worker("--exclude-queue", QUEUE, "--queue", "other")
    assert worker.wait() == ExitCode.CONFIGURATION
    assert "this worker serves none of that" in worker.output or "both served and excluded" in worker.output


def test_an_external_queue_without_its_file_is_told_by_the_exit_code(routed: Routed) -> None:
    publisher = routed.publisher()
    worker = routed.site.start_worker()
    assert worker.wait() == ExitCode.CONFIGURATION
    assert "--delivery-config" in worker.output
    routed.stop(publisher)


def test_a_drain_ends_when_nothing_is_left(routed: Routed) -> None:
    publisher = routed.publisher()
    tasks = [routed.site.submit("echo", number) for number in range(10)]
    worker = routed.worker("--drain")
    assert worker.wait() == ExitCode.CLEAN
    assert [task.state for task in tasks] == [State.SUCCEEDED] * 10
    assert not DeliveryIntent.objects.exists()
    routed.stop(publisher)


def test_a_forced_stop_waits_for_no_poll(routed: Routed) -> None:
    publisher = routed.publisher()
    worker = routed.worker("--receive-wait", "20")
    routed.site.wait_until((routed.broker.folder / "deliveries").exists, "a poll")
    began = time.monotonic()
    worker.stop_soon()
    worker.wait_for_log("worker draining")
    worker.send(signal.SIGINT)
    assert worker.wait() == ExitCode.FORCED
    assert time.monotonic() - began < 10
    routed.stop(publisher)
