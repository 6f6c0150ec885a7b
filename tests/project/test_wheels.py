"""Both built wheels, installed into an empty project that has a folder named workers of its own."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from ledgence_project.embedded.environment import CHECKOUT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SETUP = """
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["ledgence"],
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "x"}},
)
django.setup()
from django.apps import apps
import ledgence_worker, workers.mine
assert workers.mine.VALUE == 42
print(apps.get_app_config("ledgence").path)
print(ledgence_worker.__path__[0])
"""


#: What a worker says that finds nobody at the address of its task service.
WAITS = "task service not available command=open_session"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("wheels")
    for source in (CHECKOUT / "workers", CHECKOUT):
        # Without isolation: the build back end is the one of requirements.txt.
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source)]
        subprocess.run(build, check=True, capture_output=True)
    return {path.name.split("-")[0]: path for path in folder.glob("*.whl")}


def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def sources(folder: Path) -> set[str]:
    """Return what the wheel must hold of a package: every file that is not made by running it."""
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder.parent)) for path in files}


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("django_ledgence", CHECKOUT / "ledgence"),
        ("django_ledgence_worker", CHECKOUT / "workers" / "ledgence_worker"),
    ],
)
def test_a_wheel_holds_its_package_whole_and_nothing_beside_it(
    wheels: dict[str, Path], name: str, package: Path
) -> None:
    held = contents(wheels[name])
    assert {path for path in held if ".dist-info/" not in path} == sources(package)
    assert f"{package.name}/py.typed" in held
    assert any(path.endswith(".dist-info/licenses/LICENSE") for path in held)


def test_the_apps_wheel_holds_its_sql(wheels: dict[str, Path]) -> None:
    statements = {path for path in contents(wheels["django_ledgence"]) if path.endswith(".sql")}
    assert statements == {str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / "ledgence").rglob("*.sql")}
    assert statements


def test_both_work_in_a_project_with_a_workers_folder(wheels: dict[str, Path], tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=True)
    python = str(environment / "bin" / "python")
    # What the tests' own environment adds to the path would hide what is missing in this one.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    install = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        *map(str, wheels.values()),
        "psycopg[binary]",
    ]
    subprocess.run(install, env=variables, check=True)
    subprocess.run([python, "-m", "pip", "check"], env=variables, check=True, capture_output=True)
    project = tmp_path / "project"
    (project / "workers").mkdir(parents=True)
    (project / "workers" / "__init__.py").touch()
    (project / "workers" / "mine.py").write_text("VALUE = 42\n")
    ran = subprocess.run([python, "-c", SETUP], cwd=project, env=variables, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    for path in ran.stdout.split():
        assert Path(path).is_relative_to(environment)


def test_the_worker_alone_connects_without_django_and_a_driver(wheels: dict[str, Path], tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=True)
    binaries = environment / "bin"
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    install = [str(binaries / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, str(wheels["django_ledgence_worker"])], check=True, env=variables)
    listed = subprocess.run(
        [binaries / "python", "-m", "pip", "list", "--format", "freeze"], check=True, env=variables, capture_output=True
    ).stdout.decode()
    assert "django-ledgence-worker" in listed
    assert not {"django", "psycopg", "psycopg2"} & {line.partition("==")[0].lower() for line in listed.splitlines()}
    (tmp_path / "my_programs.py").write_text(
        "from ledgence_worker.programs import program\n\n\n"
        "@program(name='greet', version='1')\ndef greet(event):\n    return 1\n"
    )
    # Nobody listens there: it loads the programs and waits for the service until it is told to stop.
    command = str(binaries / "ledgence-worker")
    connect = [command, "connect", "--server", "http://127.0.0.1:1", "--import", "my_programs"]
    token = {"LEDGENCE_TOKEN": "ldg_x"}
    seen = ""
    with subprocess.Popen(connect, cwd=tmp_path, env=variables | token, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr or ():
            seen += line
            if WAITS in line:
                process.terminate()
    assert process.returncode == 0, seen
    assert WAITS in seen
