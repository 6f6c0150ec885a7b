"""pytest plugin: runs the tests on a ledger in which one guard is taken out (--mutant NAME)."""

import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

import pytest

from tests.mutants.catalogue import MUTANTS, Mutant


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mutant", choices=[mutant.name for mutant in MUTANTS], help="the guard to take out")


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    """Take the guard out before Django loads the operations."""
    name = early_config.known_args_namespace.mutant
    [mutant] = [mutant for mutant in MUTANTS if mutant.name == name]
    if mutant.is_statement:
        change_statement(mutant)
    else:
        sys.meta_path.insert(0, Finder(mutant))
    return (yield)


def change_statement(mutant: Mutant) -> None:
    """Exchange the function that reads statements in every module that has it."""
    import ledgence.sql

    original = ledgence.sql.text
    statement = mutant.change(original(mutant.place))

    def text(name: str) -> str:
        return statement if name == mutant.place else original(name)

    for name, module in list(sys.modules.items()):
        if name.startswith("ledgence.") and getattr(module, "text", None) is original:
            module.text = text  # type: ignore[attr-defined]


class Finder(PathFinder):
    """Finds the mutant's module, and changes its source while it is loaded."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(  # type: ignore[override]
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._mutant.place:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None and spec.origin is not None
        spec.loader = Loader(fullname, spec.origin, self._mutant)
        return spec


class Loader(SourceFileLoader):
    """Compiles a module's changed source; nothing is cached."""

    def __init__(self, fullname: str, path: str, mutant: Mutant) -> None:
        super().__init__(fullname, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        source = self._mutant.change(self.get_data(self.path).decode())
        code: CodeType = compile(source, self.path, "exec")
        return code
