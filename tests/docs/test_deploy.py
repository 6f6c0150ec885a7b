"""docs/deploy.md: what it tells to start starts, serves through nginx, and has the numbers of the code."""

import configparser
import http.client
import json
import re
import shlex
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from ledgence.conf import get_settings
from ledgence.http import lanes
from ledgence.http.body import BODY_SECONDS
from ledgence.http.table import HEALTH
from ledgence.tokens import Role, issue
from ledgence_project.embedded.environment import CHECKOUT
from ledgence_worker import http_connection
from ledgence_worker.limits import WAIT_SECONDS_MAX
from ledgence_worker.stopping import CLOSING_SECONDS
from tests.docs import proxy
from tests.docs.project import environment
from tests.docs.reading import DOCS, blocks, table
from tests.docs.serving import options, serve, stop
from tests.faults.waiting import wait_until
from tests.ledger.actors import execute
from tests.servers import free_port

PAGE = DOCS / "deploy.md"
TEXT = PAGE.read_text()
GRACE_SECONDS = 25.0


def of_language(language: str, page: Path = PAGE) -> list[str]:
    return [block.text for block in blocks(page) if block.language == language]


def option(name: str) -> float:
    """Return gunicorn's option of the page as a number."""
    [found] = [one.partition("=")[2] for one in options() if one.startswith(name)]
    return float(found)


def directive(name: str) -> list[float]:
    """Return the values of a directive of nginx, in seconds or connections."""
    [text] = of_language("nginx")
    return [float(value) for value in re.findall(rf"^\s*{name} (\d+)s?;", text, re.MULTILINE)]


def test_every_way_to_start_gunicorn_has_the_options_of_the_table() -> None:
    started = [line for text in of_language("console") + of_language("ini") for line in text.splitlines()]
    found = [shlex.split(line.partition("gunicorn ")[2]) for line in started if "gunicorn " in line]
    assert len(found) == 2
    [web] = [one for one in yaml.safe_load_all(of_language("yaml")[0]) if one["metadata"]["name"] == "web"]
    [container] = web["spec"]["template"]["spec"]["containers"]
    found.append(container["command"][1:])
    composition = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())
    found.append(composition["services"]["web"]["command"][1:])
    for words in found:
        given = " ".join(words).replace("=", " ")
        assert [one for one in options() if one.replace("=", " ") not in given] == [], given


def test_time_outs_hold_what_they_must() -> None:
    upstream, own = directive("keepalive_timeout")
    idle = http_connection.IDLE_SECONDS
    # Nobody closes a connection that nginx, or a worker behind it, still trusts.
    assert own > idle
    assert upstream < option("--keep-alive")
    # A stop waits for idle connections: well within its own time, and within a lease.
    assert 2 * option("--keep-alive") < option("--graceful-timeout")
    assert 2 * option("--keep-alive") < get_settings().lease_seconds
    assert option("--timeout") > BODY_SECONDS
    [read] = directive("proxy_read_timeout")
    # A wait, and a statement's time-out.
    assert read > WAIT_SECONDS_MAX + 30
    assert f"up to {BODY_SECONDS:g} s" in TEXT or f"the {BODY_SECONDS:g} s that a body" in TEXT


def test_web_connections_are_as_many_as_told() -> None:
    told = {row["Connections of"]: row["At most"] for row in table(PAGE, "Connections of")}
    threads = sum(lanes.THREADS.values())
    # A listener and housekeeping beside them.
    assert told["a web process under ASGI"] == str(threads + 2)
    assert f"{threads} threads of the task service" in TEXT


def unit(text: str) -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment, method-assign]
    parsed.read_string(text)
    return parsed


def test_units_give_time_to_stop_and_restart_only_what_that_helps() -> None:
    units = [unit(text)["Service"] for text in of_language("ini") + of_language("ini", DOCS / "operations.md")]
    assert len(units) == 4
    for service in units:
        command = service["ExecStart"]
        if "gunicorn" in command:
            assert float(service["TimeoutStopSec"]) > option("--graceful-timeout")
            continue
        assert service["RestartPreventExitStatus"] == "2"
        if "ledgence_recover" not in command:
            assert float(service["TimeoutStopSec"]) > GRACE_SECONDS + CLOSING_SECONDS
            assert (service["Type"], service["KillMode"]) == ("notify", "mixed")
            assert "WatchdogSec" in service


def test_pods_have_time_to_stop_and_probes_that_exist() -> None:
    paths = {f"/ledgence/v1/{one.path}" for one in HEALTH}
    for pod in yaml.safe_load_all(of_language("yaml")[0]):
        spec = pod["spec"]["template"]["spec"]
        [container] = spec["containers"]
        probes = [container[name] for name in ("livenessProbe", "readinessProbe") if name in container]
        assert probes
        for probe in probes:
            if "httpGet" in probe:
                assert probe["httpGet"]["path"] in paths
            else:
                [port] = re.findall(r"127\.0\.0\.1:(\d+)/health/(?:live|ready)'", probe["exec"]["command"][2])
                assert f"--health-port={port}" in container["command"]
        if container["name"] == "worker":
            assert spec["terminationGracePeriodSeconds"] > GRACE_SECONDS + CLOSING_SECONDS
        if container["name"] == "web":
            assert spec["terminationGracePeriodSeconds"] > 5 + option("--graceful-timeout")


@pytest.mark.slow
def test_nginx_takes_its_configuration(tmp_path: Path) -> None:
    assert "warn" not in proxy.check(proxy.configure(tmp_path, free_port(), free_port()))


def project_variables(database_url: str) -> dict[str, str]:
    """Return the environment of the shipped project."""
    return environment() | {
        "DATABASE_URL": database_url,
        "SECRET_KEY": "tests",
        "DJANGO_SETTINGS_MODULE": "ledgence_project.settings",
        "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'workers'}",
    }


class Site:
    """The task service behind nginx, of the shipped project."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.folder = folder
        self.port = free_port()
        self._upstream = free_port()
        self._main = proxy.configure(folder, self.port, self._upstream)
        self._variables = project_variables(database_url)
        self._tls = ssl.create_default_context(cafile=str(folder / "certificate.pem"))
        _, self.token = issue(name="tests", roles=[*Role], tenant="default", namespace="default", using="default")
        self._stack = ExitStack()
        self.web: subprocess.Popen[bytes]

    def start(self) -> None:
        self.web = self._stack.enter_context(
            serve(self.folder, self._variables, f"127.0.0.1:{self._upstream}", "ledgence_project.asgi")
        )
        self._stack.enter_context(proxy.running(self._main, self.port))

    def start_worker(self) -> subprocess.Popen[bytes]:
        """Start the page's remote worker, with the page's programs, in a folder of its own."""
        [command] = re.findall(r"^\$ ledgence-worker (connect .*)$", TEXT, re.MULTILINE)
        home = self.folder / "worker"
        home.mkdir()
        [programs] = [text for text in of_language("python") if text.startswith("# my_programs.py")]
        (home / "my_programs.py").write_text(programs)
        words = command.replace("tasks.example.com", f"127.0.0.1:{self.port}").replace("8001", str(free_port()))
        variables = {
            name: value for name, value in self._variables.items() if name not in ("DATABASE_URL", "SECRET_KEY")
        }
        worker = subprocess.Popen(
            [sys.executable, "-m", "ledgence_worker.connect", *words.split()],
            cwd=home,
            env=variables
            | {
                "LEDGENCE_TOKEN": self.token,
                "SSL_CERT_FILE": str(self.folder / "certificate.pem"),
                "PYTHONPATH": str(CHECKOUT / "workers"),
            },
        )
        self._stack.callback(stop, worker)
        return worker

    def submit_as_told(self) -> str:
        """Run the page's program that submits, and return what it prints."""
        [program] = [text for text in of_language("python") if text.startswith("# order_measure.py")]
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=self._variables
            | {
                "LEDGENCE_URL": f"https://127.0.0.1:{self.port}",
                "LEDGENCE_TOKEN": self.token,
                "SSL_CERT_FILE": str(self.folder / "certificate.pem"),
            },
            stdout=subprocess.PIPE,
            text=True,
            timeout=70,
            check=True,
        )
        return done.stdout.strip()

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, str, Any]:
        """Send a request through nginx; return status, content type and document."""
        client = http.client.HTTPSConnection("127.0.0.1", self.port, context=self._tls, timeout=60)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        try:
            client.request(method, f"/ledgence/v1/{path}", content, headers)
            reply = client.getresponse()
            return reply.status, reply.headers.get_content_type(), json.loads(reply.read())
        finally:
            client.close()

    def submit(self, program: str, queue: str, data: object) -> str:
        body = {"program": program, "version": "1", "queue": queue, "data": data}
        _, _, task = self.ask("POST", "tasks", body)
        return str(task["id"])

    def close(self) -> None:
        self._stack.close()


@pytest.mark.process
@pytest.mark.slow
def test_a_stop_waits_no_longer_for_an_idle_connection_than_told(tmp_path: Path, database_url: str) -> None:
    port = free_port()
    with ExitStack() as stack:
        web = stack.enter_context(
            serve(tmp_path, project_variables(database_url), f"127.0.0.1:{port}", "ledgence_project.asgi")
        )
        idle = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        stack.callback(idle.close)
        idle.request("GET", "/ledgence/v1/health/live")
        assert idle.getresponse().read()
        began = time.monotonic()
        stop(web)
        # And a second for the processes to end.
        assert time.monotonic() - began < option("--keep-alive") + 3
        assert web.returncode == 0


class Waiting:
    """A request on a thread of its own that waits for the end of a task which nobody runs."""

    def __init__(self, site: Site, task: str) -> None:
        self._site, self._task = site, task
        self._thread = threading.Thread(target=self._wait)
        self._began = time.monotonic()
        self._seconds = 0.0
        self._answer: object = None
        self._thread.start()

    def _wait(self) -> None:
        self._answer = self._site.ask("GET", f"tasks/{self._task}/result?wait_seconds={WAIT_SECONDS_MAX:g}")
        self._seconds = time.monotonic() - self._began

    def end(self) -> float:
        """Return after how many seconds it was answered, as a wait without news is."""
        self._thread.join(60)
        assert self._answer == (200, "application/json", {"id": self._task, "state": "queued"})
        return self._seconds


@pytest.fixture
def site(tmp_path: Path, database_url: str) -> Iterator[Site]:
    made = Site(tmp_path, database_url)
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.mark.process
@pytest.mark.slow
def test_a_wait_of_20_seconds_passes_nginx_and_a_refused_body_is_the_services_own(site: Site) -> None:
    task = site.submit("nobody", "nowhere", None)
    waiting = Waiting(site, task)
    too_large = b" " * (20 * 1024 * 1024 + 1)
    status, kind, problem = site.ask("POST", f"sessions/{task}/settle", too_large)
    assert (status, kind, problem["code"]) == (413, "application/problem+json", "invalid_input")
    assert waiting.end() >= WAIT_SECONDS_MAX
    wait_until(lambda: '"GET /ledgence/v1/tasks/' in (site.folder / "ledgence.log").read_text(), "nginx's log")


@pytest.mark.process
@pytest.mark.slow
def test_a_remote_worker_works_through_nginx_and_a_stop_answers_waits_at_once(site: Site) -> None:
    worker = site.start_worker()
    assert site.submit_as_told() == "{'pixels': 12}"
    assert 0 < len(connections_to(worker.pid, site.port)) <= 4
    tasks = [site.submit("images.measure", "images", {"size": [n, 1]}) for n in range(40)]
    for task in tasks:
        assert site.ask("GET", f"tasks/{task}/result?wait_seconds=20")[2]["state"] == "succeeded"
    assert 0 < database_connections() <= 2 * (sum(lanes.THREADS.values()) + 1)
    stop(worker)
    assert worker.returncode == 0
    [(since,)] = execute("SELECT clock_timestamp()")
    waiting = Waiting(site, site.submit("nobody", "nowhere", None))
    # The web process looks for the ends of tasks only while somebody waits for one.
    looks = (
        "SELECT 1 FROM pg_stat_activity "
        "WHERE datname = current_database() AND query LIKE 'select asked.id%%' AND query_start > %s"
    )
    wait_until(lambda: execute(looks, [since]), "the wait to begin")
    stop(site.web)
    assert waiting.end() < WAIT_SECONDS_MAX / 2
    assert site.web.returncode == 0


def connections_to(pid: int, port: int) -> list[object]:
    return [one for one in psutil.Process(pid).net_connections("tcp4") if one.raddr[1:] == (port,)]


def database_connections() -> int:
    """Return how many connections the web processes have."""
    names = ("ledgence http", "ledgence listener")
    own = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = ANY(%s)"
    [(count,)] = execute(own, [list(names)])
    return int(count)
