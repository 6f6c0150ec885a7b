"""Loading programs by the name of a callable."""

import sys
from types import ModuleType

import pytest

from ledgence_worker.bootstrap import MODULES_VARIABLE, Hooks, import_modules, run_bootstrap
from ledgence_worker.errors import BootstrapFailed


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    made = ModuleType("bootstraps_of_a_test")
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


def test_a_bootstrap_may_return_hooks_or_nothing(module: ModuleType) -> None:
    hooks = Hooks(before=(print,))
    vars(module).update(some=lambda: hooks, none=lambda: None)
    assert run_bootstrap("bootstraps_of_a_test:some") is hooks
    assert run_bootstrap("bootstraps_of_a_test:none") == Hooks()


@pytest.mark.parametrize("name", ["missing", "number", "wrong"])
def test_a_wrong_bootstrap_is_refused(module: ModuleType, name: str) -> None:
    vars(module).update(number=5, wrong=lambda: 5)
    with pytest.raises(BootstrapFailed, match=name):
        run_bootstrap(f"bootstraps_of_a_test:{name}")


def test_modules_are_imported_from_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MODULES_VARIABLE, " json , tests.worker.no_such_module")
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        import_modules()
    monkeypatch.setenv(MODULES_VARIABLE, "json,")
    import_modules()
