"""What the two distributions and a checkout declare agrees, and the boundary between them holds."""

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from typing import Any

import yaml

from ledgence_project.embedded.environment import CHECKOUT

APP: dict[str, Any] = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
WORKER: dict[str, Any] = tomllib.loads((CHECKOUT / "workers" / "pyproject.toml").read_text())
REQUIREMENTS = [
    line for line in (CHECKOUT / "requirements.txt").read_text().splitlines() if line and not line.startswith("#")
]

IMPORT_ALL = """
import importlib, pkgutil, sys
for name in ("django", "psycopg", "ledgence"):
    sys.modules[name] = None
import ledgence_worker
names = [module.name for module in pkgutil.walk_packages(ledgence_worker.__path__, "ledgence_worker.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(len(names))
"""


def distribution(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None, requirement
    return match[0].lower()


def test_both_distributions_have_one_version() -> None:
    version = APP["project"]["version"]
    assert WORKER["project"]["version"] == version
    assert f"django-ledgence-worker=={version}" in APP["project"]["dependencies"]
    # Its adapter to SQS comes with the execution side.
    assert APP["project"]["optional-dependencies"]["sqs"] == [f"django-ledgence-worker[sqs]=={version}"]


def test_the_cores_stay_small() -> None:
    assert {distribution(r) for r in APP["project"]["dependencies"]} == {"django", "psycopg", "django-ledgence-worker"}
    assert {distribution(r) for r in WORKER["project"]["dependencies"]} == {"cloudevents"}
    assert set(APP["project"]["optional-dependencies"]) == {"sqs", "http", "project", "dev"}
    assert set(WORKER["project"]["optional-dependencies"]) == {"http", "sqs"}


def test_requirements_install_the_checkout_first_and_everything_else_after() -> None:
    assert REQUIREMENTS[:2] == ["-e ./workers", "-e ."]
    listed = {distribution(requirement) for requirement in REQUIREMENTS[2:]}
    extras = [r for one in (APP, WORKER) for extra in one["project"]["optional-dependencies"].values() for r in extra]
    wanted = {distribution(r) for r in APP["project"]["dependencies"] + WORKER["project"]["dependencies"] + extras}
    # Nothing is used in a checkout that no extra tells of.
    assert wanted - {"django-ledgence-worker"} == listed
    # A requirement without a lower bound installs whatever an old cache holds.
    assert [requirement for requirement in REQUIREMENTS[2:] if ">=" not in requirement] == []


def test_the_license_goes_with_both() -> None:
    assert (CHECKOUT / "workers" / "LICENSE").read_text() == (CHECKOUT / "LICENSE").read_text()


def test_the_execution_side_imports_without_django_and_database() -> None:
    ran = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 0


def test_manage_finds_the_execution_side_in_a_checkout_that_is_not_installed() -> None:
    # Without site no path file of an editable installation is read; the dependencies are named by hand.
    variables = os.environ | {"PYTHONPATH": sysconfig.get_path("purelib")}
    show = ["shell", "--no-imports", "-c", "import ledgence_worker; print(ledgence_worker.__path__[0])"]
    command = [sys.executable, "-S", "manage.py", *show]
    ran = subprocess.run(command, cwd=CHECKOUT, env=variables, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == f"{CHECKOUT / 'workers' / 'ledgence_worker'}\n"


def test_the_composition_names_real_commands() -> None:
    composition = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())
    services = composition["services"]
    assert services["postgres"]["image"] == "postgres:18"
    commands = [service["command"] for service in services.values() if "command" in service]
    managed = {command[2] for command in commands if command[:2] == ["python", "manage.py"]}
    assert managed == {"migrate", "ledgence_worker", "ledgence_recover", "ledgence_publisher"}
    assert services["web"]["command"][0] == "gunicorn"
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)


def test_the_top_level_is_as_decided() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    top = {path.split("/")[0] for path in tracked.splitlines()}
    decided = "manage.py ledgence_project ledgence workers tests docs requirements.txt docker-compose.yml "
    decided += "docker-compose.sqs.yml pyproject.toml Makefile README.md CHANGELOG.md LICENSE SECURITY.md"
    assert {name for name in top if not name.startswith(".")} <= set(decided.split())
