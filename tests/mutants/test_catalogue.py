"""The mutants can be made of today's statements and modules, and name tests that exist."""

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest

from ledgence import sql
from tests.mutants.catalogue import MUTANTS, Mutant

TESTS = Path(__file__).resolve().parents[1] / "ledger"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_guard_is_where_the_mutant_takes_it_out(mutant: Mutant):
    if mutant.is_statement:
        assert mutant.change(sql.text(mutant.place)) != sql.text(mutant.place)
        return
    spec = find_spec(mutant.place)
    assert spec is not None and spec.origin is not None
    # It is still a module, so that a test fails for what it does and not because it cannot be loaded.
    ast.parse(mutant.change(Path(spec.origin).read_text("utf-8")))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_tests_that_must_notice_exist(mutant: Mutant):
    assert mutant.tests and all((TESTS / test).is_file() for test in mutant.tests)


def test_no_name_stands_twice():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
