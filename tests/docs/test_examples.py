"""The examples of the documentation run as they stand there, in a project that Django's own commands have just made."""

from pathlib import Path

import pytest

from tests.docs.project import Project, start_project
from tests.docs.reading import DOCS, README

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_readme(tmp_path: Path, reader_database: dict[str, object]) -> None:
    start_project(tmp_path, "shop", reader_database, "orders").play(README)


def test_programs(tmp_path: Path, reader_database: dict[str, object]) -> None:
    project = start_project(tmp_path, "mysite", reader_database, "shop", "ledgence")
    project.migrate()
    project.play(DOCS / "programs.md")


def test_tutorial(tmp_path: Path, reader_database: dict[str, object]) -> None:
    Project(tmp_path, "bookshop", reader_database).play(DOCS / "tutorial.md")
