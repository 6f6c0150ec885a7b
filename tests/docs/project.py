"""A project of a reader's own: made by Django's commands in an empty folder, with an empty database, told by a page."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
from django.conf import settings
from psycopg import sql

from tests.docs.reading import Block, blocks

SESSION = Path(__file__).with_name("session.py")
#: What a page's Python says first: the file that it is, or to whose end it belongs.
PLACE = re.compile(r"# (at the end of )?(\S+\.py)\n")
#: The reader's own settings with the test's database: pages name theirs.
SETTINGS = "from {project}.settings import *\n\nDATABASES = {{'default': {database!r}}}\n"
#: How long a page's steps between two files may take.
STEP_SECONDS = 100.0
_numbers = count()


class Project:
    """A folder in which pages are played. ``database`` is a value of Django's DATABASES."""

    def __init__(self, folder: Path, name: str, database: dict[str, object]) -> None:
        self.folder = folder
        (folder / "site_of_the_test.py").write_text(SETTINGS.format(project=name, database=database))

    def play(self, page: Path) -> None:
        """Write the page's files and run its commands (sh) and sessions (pycon). A file begins a new session.

        What readers only look at, or type in a checkout of Ledgence, has another language (console).
        """
        steps: list[Block] = []
        for block in blocks(page):
            if block.language == "python":
                self._run(steps, page)
                steps = []
                self.write(block)
            elif block.language in ("sh", "pycon"):
                steps.append(block)
        self._run(steps, page)

    def migrate(self) -> None:
        """Make the tables, where a page begins after that."""
        self._finish([sys.executable, "manage.py", "migrate"], "", "migrate")

    def write(self, block: Block) -> None:
        """Write a block of Python to the file that it names."""
        place = PLACE.match(block.text)
        assert place, f"line {block.line}: a block of Python must say which file it is"
        file = self.folder / place[2]
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a" if place[1] else "w") as target:
            target.write("\n\n" + block.text[place.end() :] if place[1] else block.text)

    def _run(self, steps: list[Block], page: Path) -> None:
        if steps:
            script = [(step.language, commands(step), f"{page.name}:{step.line}") for step in steps]
            self._finish([sys.executable, str(SESSION)], json.dumps(script), page.name)

    def _finish(self, command: list[str], stdin: str, what: str) -> None:
        """Run a command; whatever it leaves running ends with it."""
        with (self.folder / "output.log").open("w+") as output:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment(),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                text=True,
                start_new_session=True,
            )
            try:
                process.communicate(stdin, timeout=STEP_SECONDS)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            output.seek(0)
            assert process.returncode == 0, f"{what}\n{output.read()}"


def commands(step: Block) -> str:
    """Return what is to be run of a step: everything but the installation of what is installed."""
    return "\n".join(line for line in step.text.splitlines() if not line.startswith("pip install ")) + "\n"


def environment() -> dict[str, str]:
    """Return the reader's environment: this interpreter is ``python``, and nothing else of the tests' own."""
    own = {"DJANGO_SETTINGS_MODULE": "site_of_the_test", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    dropped = ("LEDGENCE", "DATABASE_URL", "SECRET_KEY", "PYTHONPATH")
    return {name: value for name, value in os.environ.items() if not name.startswith(dropped)} | own


def start_project(folder: Path, name: str, database: dict[str, object], app: str, *others: str) -> Project:
    """Make a project and an app as Django's own commands do; install the app, and others that exist."""
    django = [sys.executable, "-m", "django"]
    bare = {name: value for name, value in environment().items() if name != "DJANGO_SETTINGS_MODULE"}
    subprocess.run([*django, "startproject", name, "."], cwd=folder, env=bare, check=True)
    subprocess.run([*django, "startapp", app], cwd=folder, env=bare, check=True)
    with (folder / name / "settings.py").open("a") as file:
        file.write(f"\nINSTALLED_APPS += {[app, *others]!r}\n")
    return Project(folder, name, database)


@contextmanager
def empty_database() -> Iterator[dict[str, object]]:
    """Make a database beside the tests' one; drop it at the end. Its name tells whose it is, as the plugin's do."""
    known = settings.DATABASES["default"]
    name = f"test_ledgence_{os.getpid()}_docs_{next(_numbers)}"
    parameters = {"user": known["USER"], "password": known["PASSWORD"], "host": known["HOST"], "port": known["PORT"]}
    with psycopg.connect(
        dbname="postgres", autocommit=True, **{key: value for key, value in parameters.items() if value}
    ) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield {**{key: known[key] for key in ("ENGINE", "USER", "PASSWORD", "HOST", "PORT")}, "NAME": name}
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
