"""What the documentation says is held by tests that exist, and its links lead somewhere."""

import re
from pathlib import Path

import pytest

from ledgence.audit import INVARIANTS
from tests.docs.reading import DOCS, PAGES, README, defined_in, named_tests, table, tables

LINK = re.compile(r"\]\(([^)\s]+)\)")
HOLDER = "Held by"
#: Titles of tables that say what there is; the invariants have a test of their own.
NO_RULES = {"Row", "Invariant"}


def name_of(page: Path) -> str:
    return str(page.relative_to(README.parent))


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_named_test_exists(page: Path) -> None:
    missing = [f"{path}::{name}" for path, name in named_tests(page.read_text()) if name not in defined_in(path)]
    assert missing == []


def test_every_rule_of_the_design_names_a_test_that_holds_it() -> None:
    rules = [row for rows in tables(DOCS / "design.md") for row in rows if not row.keys() & NO_RULES]
    assert len(rules) > 40
    assert [row for row in rules if not named_tests(row.get(HOLDER, ""))] == []


def test_every_invariant_stands_in_the_design() -> None:
    assert [row["Invariant"] for row in table(DOCS / "design.md", "Invariant")] == list(INVARIANTS)


def test_every_guarantee_says_what_it_leaves_out_and_names_a_test_that_holds_it() -> None:
    _, *guarantees = (DOCS / "guarantees.md").read_text().split("\n### ")
    assert len(guarantees) > 10
    for guarantee in guarantees:
        title = guarantee.partition("\n")[0]
        assert "*Not promised:*" in guarantee, title
        assert named_tests(guarantee), title


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_is_linked_from_the_readme() -> None:
    linked = {(README.parent / link.partition("#")[0]).resolve() for link in LINK.findall(README.read_text())}
    assert [name_of(page) for page in PAGES if page != README and page not in linked] == []
