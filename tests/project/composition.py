"""The services of docker-compose.yml as processes on this machine, with the tests' database in place of its image."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from ledgence_project.embedded.environment import CHECKOUT
from tests.faults.waiting import wait_until
from tests.servers import free_port

FILE = CHECKOUT / "docker-compose.yml"
#: With a queue of SQS in place of ElasticMQ.
OVERRIDE = CHECKOUT / "docker-compose.sqs.yml"
#: ${NAME:-default}, as Compose takes values from its own environment.
VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")
LOG_TAIL = 4000


def read() -> dict[str, Any]:
    """Return the composition, its anchors resolved."""
    composition: dict[str, Any] = yaml.safe_load(FILE.read_text())
    return composition


def seconds(text: str) -> float:
    """Return a duration of Compose."""
    assert text.endswith("s"), text
    return float(text[:-1])


class Services:
    """Every service that runs our code. stop() ends what start() has started, and nothing else."""

    def __init__(self, database_url: str, folder: Path, *, hosts: Mapping[str, str] = MappingProxyType({})) -> None:
        composition = read()
        self._services: dict[str, dict[str, Any]] = composition["services"]
        self._configs: dict[str, dict[str, Any]] = composition["configs"]
        #: Services that run elsewhere: their host and port there, and where they are here.
        self._hosts = hosts
        self._folder = folder
        self._database_url = database_url
        #: Ports of this machine in place of the containers', which each have the loopback interface to themselves.
        self._ports = {port: free_port() for port in range(8000, 8005)}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def web(self) -> str:
        return f"http://127.0.0.1:{self._ports[8000]}"

    def run(self, name: str) -> None:
        """Run a service that ends by itself."""
        assert self._start(name).wait(100) == 0, self._tail(name)

    def start(self, name: str) -> None:
        """Start a service whose healthcheck fails until it runs, and wait until that passes."""
        assert not self.is_healthy(name), f"something else answers for {name}"
        process = self._running[name] = self._start(name)
        check = self._services[name]["healthcheck"]
        allowed = seconds(check["start_period"]) + check["retries"] * seconds(check["interval"])

        def look() -> bool:
            assert process.poll() is None, f"{name} ended\n{self._tail(name)}"
            return self.is_healthy(name)

        wait_until(look, f"{name} to be healthy", seconds=allowed)

    def is_healthy(self, name: str) -> bool:
        """Run the service's healthcheck once, as Compose does."""
        check = self._services[name]["healthcheck"]
        kind, *command = check["test"]
        assert kind == "CMD"
        ran = subprocess.run(
            list(map(self._here, command)),
            env=self._environment(name),
            timeout=seconds(check["timeout"]),
            capture_output=True,
            check=False,
        )
        return ran.returncode == 0

    def stop(self, name: str) -> int:
        """End a service as Compose does, within its grace period, and return its exit code."""
        process = self._running.pop(name)
        process.send_signal(signal.SIGTERM)
        return process.wait(seconds(self._services[name].get("stop_grace_period", "10s")))

    def kill(self) -> None:
        """End at once whatever a failed test has left."""
        for process in self._running.values():
            process.kill()
            process.wait()

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                self._with_configs(name, list(map(self._here, self._services[name]["command"]))),
                cwd=CHECKOUT,
                env=self._environment(name),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _tail(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")[-LOG_TAIL:]

    def _here(self, word: str) -> str:
        """Translate a word of a command to this machine: its ports, and never another interface than loopback."""
        word = word.replace("0.0.0.0:", "127.0.0.1:")
        return re.sub(r"\b800[0-4]\b", lambda match: str(self._ports[int(match[0])]), word)

    def _with_configs(self, name: str, command: list[str]) -> list[str]:
        """Write the files that a service is given, and name them in its command where they are here."""
        for given in self._services[name].get("configs", ()):
            text: str = self._configs[given["source"]]["content"]
            for there, here in self._hosts.items():
                text = text.replace(there, here)
            file = self._folder / f"{name}-{Path(given['target']).name}"
            file.write_text(text)
            command = [word.replace(given["target"], str(file)) for word in command]
        return command

    def _environment(self, name: str) -> dict[str, str]:
        given: Mapping[str, str] = self._services[name]["environment"]
        own = {key: VARIABLE.sub(lambda match: match[2], value) for key, value in given.items()}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        kept = {key: value for key, value in os.environ.items() if key in ("HOME", "LANG", "PYTHONPATH", "TMPDIR")}
        return kept | {"PATH": path} | own | {"DATABASE_URL": self._database_url}
