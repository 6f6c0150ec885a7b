"""The publisher as a real process: its start before its broker, its stop, and its death."""

import json
import os
import signal
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from urllib.error import HTTPError

import pytest

from ledgence.models import DeliveryIntent, OperatorAction, Publisher, Queue
from ledgence_project.embedded.environment import CHECKOUT
from ledgence_worker.stopping import ExitCode
from tests.faults.file_broker import FolderBroker, install
from tests.faults.waiting import wait_until
from tests.faults.worker_process import MARK_VARIABLE, WorkerProcess
from tests.ledger.actors import assert_audit_clean, execute, submit_task, submit_tasks
from tests.servers import free_port

pytestmark = pytest.mark.process

CONNECTED = "select 1 from pg_stat_activity where application_name like 'ledgence publisher%'"
COMMAND = (str(CHECKOUT / "manage.py"), "ledgence_publisher")


class PublisherSite:
    """A folder that is the broker, and publishers before it."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._folder = url, folder
        install(folder / "site")
        self.broker = FolderBroker(folder / "queue")
        self.broker.folder.mkdir()
        self.port = free_port()
        self.processes: list[WorkerProcess] = []
        self.write("default")

    def write(self, *queues: str) -> None:
        """Write the configuration: the first queue leads to the broker, the others each to a folder of its own."""
        routes = []
        for number, queue in enumerate(queues):
            path = self.broker.folder if number == 0 else self._folder / queue
            path.mkdir(exist_ok=True)
            routes.append(f'[[routes]]\nqueue = "{queue}"\n[routes.folder]\npath = "{path}"\n')
        (self._folder / "delivery.toml").write_text("\n".join(routes))

    def start(self, *options: str) -> WorkerProcess:
        path = os.pathsep.join([str(self._folder / "site"), os.environ.get("PYTHONPATH", "")])
        environment = os.environ | {
            "DATABASE_URL": self._url,
            "LOG_LEVEL": "INFO",
            MARK_VARIABLE: "publisher",
            "PYTHONPATH": path,
        }
        arguments = ["--delivery-config", str(self._folder / "delivery.toml"), *options]
        log = self._folder / f"publisher-{len(self.processes)}.log"
        process = WorkerProcess(arguments, environment, log, COMMAND)
        self.processes.append(process)
        return process

    def publishing(self) -> WorkerProcess:
        """Start a publisher with health pages, and return it when it publishes."""
        process = self.start("--health-port", str(self.port))
        process.wait_for_log("publishing queue=")
        return process

    def set(self, name: str, text: str = "") -> None:
        (self.broker.folder / name).write_text(text)

    def clear(self, name: str) -> None:
        (self.broker.folder / name).unlink()

    def ready(self) -> Sequence[str] | None:
        """Return the reasons of the health page; None while there is none."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health/ready", timeout=10) as reply:
                reasons: Sequence[str] = json.load(reply)["reasons"]
        except HTTPError as error:
            reasons = json.load(error)["reasons"]
        except OSError:
            return None
        return reasons


@pytest.fixture
def site(database_url: str, tmp_path: Path):
    made = PublisherSite(database_url, tmp_path)
    yield made
    for process in made.processes:
        if process.is_running:
            process.kill()


def is_external() -> bool:
    return Queue.objects.filter(mode="external").exists()


def wait_until_confirmed(count: int) -> None:
    rows = DeliveryIntent.objects.filter(confirmed_at__isnull=False)
    wait_until(lambda: rows.count() == count, f"{count} confirmed publications")


def test_it_routes_publishes_and_ends_cleanly(site: PublisherSite) -> None:
    publisher = site.publishing()
    assert Queue.objects.get().destination == str(site.broker.folder)
    assert OperatorAction.objects.get().kind == "route"
    task = submit_task()
    wait_until_confirmed(1)
    assert site.broker.taken() == [str(task)]
    wait_until(lambda: site.ready() == [], "the health page")
    assert Publisher.objects.live().count() == 1
    assert publisher.stop() == ExitCode.CLEAN
    assert not Publisher.objects.exists()
    assert_audit_clean()


def test_it_waits_for_its_broker_and_says_so(site: PublisherSite) -> None:
    site.set("down")
    publisher = site.start("--health-port", str(site.port))
    publisher.wait_for_log("publisher cannot start yet step=route")
    [reason] = site.ready() or ()
    assert reason.startswith("not publishing yet: route default/default/default: The folder")
    assert not is_external()
    site.clear("down")
    publisher.wait_for_log("publishing queue=")
    assert is_external()
    assert publisher.stop() == ExitCode.CLEAN


def test_a_signal_while_it_waits_for_its_broker_ends_it(site: PublisherSite) -> None:
    site.set("down")
    publisher = site.start()
    publisher.wait_for_log("publisher cannot start yet")
    assert publisher.stop() == ExitCode.CLEAN
    assert not Queue.objects.exists()


def test_what_can_never_be_used_ends_it_with_the_reason_and_nothing_is_routed(site: PublisherSite) -> None:
    site.write("default", "other")
    site.set("refused", "This queue is FIFO.")
    publisher = site.start()
    assert publisher.wait() == ExitCode.CONFIGURATION
    assert "This queue is FIFO." in publisher.output
    site.clear("refused")
    submit_task(queue="other")
    publisher = site.start()
    assert publisher.wait() == ExitCode.CONFIGURATION
    assert "still has queued tasks" in publisher.output
    assert not is_external()


def test_once_tells_by_its_exit_code_whether_all_was_confirmed(site: PublisherSite) -> None:
    assert site.start("--once").wait() == ExitCode.CLEAN
    tasks = submit_tasks(25)
    assert site.start("--once").wait() == ExitCode.CLEAN
    assert sorted(site.broker.taken()) == sorted(map(str, tasks))
    poison = submit_task()
    site.set("poison", str(poison))
    assert site.start("--once").wait() == 1
    assert DeliveryIntent.objects.get(pk=poison).refusals == 1


def test_a_publisher_that_is_killed_loses_nothing(site: PublisherSite) -> None:
    first = site.publishing()
    tasks = submit_tasks(2000)
    wait_until(lambda: len(site.broker.taken()) > 0, "the first messages")
    first.kill()
    # What it had leased is due again when its leases end; that need not be waited for here, but its last commit.
    wait_until(lambda: not execute(CONNECTED), "the end of its connections")
    DeliveryIntent.objects.exclude(publish_token=None).update(next_publish_at="2020-01-01T00:00:00Z")
    second = site.publishing()
    wait_until_confirmed(2000)
    assert set(site.broker.taken()) == set(map(str, tasks))
    assert second.stop() == ExitCode.CLEAN
    assert_audit_clean()


def test_a_broker_that_goes_away_and_comes_back(site: PublisherSite) -> None:
    publisher = site.publishing()
    site.set("down")
    tasks = submit_tasks(50)
    wait_until(lambda: any("does not answer" in reason for reason in site.ready() or ()), "it is not ready")
    site.clear("down")
    wait_until_confirmed(50)
    assert sorted(site.broker.taken()) == sorted(map(str, tasks))
    wait_until(lambda: site.ready() == [], "it is ready")
    publisher.send(signal.SIGINT)
    assert publisher.wait() == ExitCode.CLEAN
