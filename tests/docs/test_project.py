"""What plays the examples notices examples that do not hold; otherwise they would prove nothing."""

from pathlib import Path

import psutil
import pytest

from tests.docs.project import Project
from tests.docs.reading import PAGES, README, blocks, named_tests, tables
from tests.faults.waiting import wait_until


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "settings.py").write_text("USE_TZ = True\n")
    return Project(tmp_path, "bare", {})


def page(folder: Path, text: str) -> Path:
    file = folder / "page.md"
    file.write_text(text)
    return file


def test_sessions_go_on_over_blocks_and_see_the_files(project: Project) -> None:
    text = "```python\n# six.py\nVALUE = 6\n```\n```python\n# at the end of six.py\nMORE = 1\n```\n"
    text += "```pycon\n>>> import six\n>>> seven = six.VALUE + six.MORE\n```\n```sh\necho > done\n```\n"
    project.play(page(project.folder, text + "```pycon\n>>> seven\n7\n```\n"))
    assert (project.folder / "done").exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("```pycon\n>>> 6 * 7\n41\n```\n", "Expected:\n    41\nGot:\n    42"),
        ("```pycon\n>>> undefined\n```\n", "NameError"),
        ("```sh\nfalse\necho later\n```\n", "page.md:1: exit status 1"),
        ("```python\nVALUE = 6\n```\n", "must say which file"),
    ],
)
def test_what_does_not_hold_is_told(project: Project, text: str, told: str) -> None:
    with pytest.raises(AssertionError, match="(?s)" + told.replace("\n", "\\s+")):
        project.play(page(project.folder, text))


def test_what_an_example_leaves_running_ends_with_it(project: Project) -> None:
    project.play(page(project.folder, "```sh\nsleep 600 & echo $! > left\n```\n"))
    pid = int((project.folder / "left").read_text())
    wait_until(lambda: not is_living(pid), f"process {pid} to end", seconds=10)


def is_living(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_every_block_of_python_compiles() -> None:
    for document in PAGES:
        for block in blocks(document):
            if block.language == "python":
                compile(block.text, f"{document.name}:{block.line}", "exec")


def test_only_known_languages_are_used() -> None:
    known = {"", "console", "ini", "json", "mermaid", "nginx", "pycon", "python", "sh", "sql", "toml", "yaml"}
    assert {block.language for document in PAGES for block in blocks(document)} <= known


def test_tables_and_named_tests_are_read(tmp_path: Path) -> None:
    text = (
        "| A | B |\n|---|---|\n| `x \\| y` | `tests/docs/test_project.py::test_it` |\n\ntext\n\n| C |\n|---|\n| 1 |\n"
    )
    first, second = tables(page(tmp_path, text))
    assert first == [{"A": "`x | y`", "B": "`tests/docs/test_project.py::test_it`"}]
    assert second == [{"C": "1"}]
    assert named_tests(text) == [("tests/docs/test_project.py", "test_it")]
    assert named_tests(README.read_text()) == []
