"""The page on adapters: its example passes the suite and is found by its entry point, its tables match the ports."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ledgence.testing.delivery.conformance import AdapterConformance
from ledgence_worker.delivery.ports import PublishStatus, ReceiptStatus
from tests.docs.project import Project
from tests.docs.reading import DOCS, blocks, table

PAGE = DOCS / "adapters.md"

READING = """
from ledgence_worker.delivery.config import read_routes
[route] = read_routes("delivery.toml")
print(route.queue, route.adapter, route.options.path, type(route.options).__name__)
"""


@pytest.mark.process
@pytest.mark.slow
def test_the_example_passes_the_suite(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "settings.py").write_text("")
    Project(tmp_path, "bare", {}).play(PAGE)


@pytest.mark.process
def test_the_example_is_found_by_its_entry_point(tmp_path: Path) -> None:
    project = Project(tmp_path, "unused", {})
    written = {}
    for block in blocks(PAGE):
        if block.language == "python":
            project.write(block)
        elif block.language == "toml":
            written[block.text.split()[1]] = block.text
    (tmp_path / "delivery.toml").write_text(written["delivery.toml"])
    # As an installer leaves it.
    point = next(line for line in written["pyproject.toml"].splitlines() if line.startswith("shelf ="))
    installed = tmp_path / "shelf-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: shelf\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[ledgence_worker.adapters]\n" + point.replace('"', "") + "\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", READING], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "emails shelf /var/lib/shelf/emails.db ShelfOptions\n", done.stderr


def test_the_statuses_are_those_of_the_ports() -> None:
    assert [row["PublishStatus"] for row in table(PAGE, "PublishStatus")] == list(PublishStatus)
    assert [row["ReceiptStatus"] for row in table(PAGE, "ReceiptStatus")] == list(ReceiptStatus)


def test_the_attributes_are_those_of_the_suite() -> None:
    named = {row["Attribute"] for row in table(PAGE, "Attribute")}
    known = {name for kind in AdapterConformance.__mro__ for name in inspect.get_annotations(kind)}
    assert named == known
    assert "test_acknowledging_removes_one_message_and_no_other" in dir(AdapterConformance)
