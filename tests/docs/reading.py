"""Reads the documentation: its fenced blocks, its tables, and the tests that it names."""

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeGuard

from ledgence_project.embedded.environment import CHECKOUT

README = CHECKOUT / "README.md"
DOCS = CHECKOUT / "docs"
PAGES = [README, *sorted(DOCS.rglob("*.md"))]

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: A test by its file and name, as pytest takes it; between backticks.
NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)((?:::\w+)+)`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block: its language, its text, and the line of the page on which it begins."""

    language: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    """Return every fenced block of a page, in order."""
    text = page.read_text()
    return [
        Block(language=match[1], text=match[2], line=text.count("\n", 0, match.start()) + 1)
        for match in FENCE.finditer(text)
    ]


def table(page: Path, first_column: str) -> list[dict[str, str]]:
    """Return the rows of the page's one table whose first column has this title, as text without backticks."""
    found = [rows for rows in tables(page) if next(iter(rows[0])) == first_column]
    assert len(found) == 1, f"{page.name} has {len(found)} tables that begin with {first_column!r}"
    return [{title: cell.replace("`", "") for title, cell in row.items()} for row in found[0]]


def tables(page: Path) -> list[list[dict[str, str]]]:
    """Return every table of a page: its rows by title, with their backticks."""
    found: list[list[dict[str, str]]] = []
    titles: list[str] = []
    for line in FENCE.sub("", page.read_text()).splitlines():
        cells = _cells(line)
        if not cells:
            titles = []
        elif not titles:
            titles = cells
            found.append([])
        elif not set("".join(cells)) <= set("-:"):
            found[-1].append(dict(zip(titles, cells, strict=True)))
    return found


def _cells(line: str) -> list[str]:
    """Split a table's line at the bars that are not escaped."""
    if not line.startswith("|"):
        return []
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def named_tests(text: str) -> list[tuple[str, str]]:
    """Return the (file, "Class::name" or "name") of every test that a text names."""
    return [(match[1], match[2].removeprefix("::")) for match in NAMED_TEST.finditer(text)]


@cache
def defined_in(path: str) -> frozenset[str]:
    """Return the tests that a file defines, methods as "Class::name", without importing it."""
    file = CHECKOUT / path
    if not file.exists():
        return frozenset()
    found: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{member.name}" for member in node.body if _is_test(member)}
        elif _is_test(node):
            found.add(node.name)
    return frozenset(found)


def _is_test(node: ast.stmt) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
