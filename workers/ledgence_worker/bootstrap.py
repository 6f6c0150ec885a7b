"""How a managed process loads its programs: a callable named "module:function", run once before the first attempt."""

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ledgence_worker.errors import BootstrapFailed

#: The modules that import_modules() imports, separated by commas.
MODULES_VARIABLE: Final = "LEDGENCE_CHILD_MODULES"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Called in the process around each attempt, in order.

    If one of ``before`` raises, the process ends and the attempt with it (crashed). If one of ``after`` raises, the
    attempt keeps its outcome and the process is replaced.
    """

    before: tuple[Callable[[], object], ...] = ()
    after: tuple[Callable[[], object], ...] = ()


#: Registers programs by importing them, and returns the hooks, if it has any.
type Bootstrap = Callable[[], Hooks | None]


def import_modules() -> None:
    """Import the modules named in LEDGENCE_CHILD_MODULES: the bootstrap of programs that need no framework."""
    for name in os.environ.get(MODULES_VARIABLE, "").split(","):
        if name.strip():
            importlib.import_module(name.strip())


def run_bootstrap(name: str) -> Hooks:
    """Import and call the bootstrap named "module:function". What it raises is passed on."""
    module, _, function = name.partition(":")
    bootstrap: object = getattr(importlib.import_module(module), function or "load_programs", None)
    if not callable(bootstrap):
        raise BootstrapFailed(f'No bootstrap {name!r} exists: name it "module:function".')
    hooks = bootstrap()
    if hooks is not None and not isinstance(hooks, Hooks):
        raise BootstrapFailed(f"The bootstrap {name!r} returned {type(hooks).__name__}; return Hooks or None.")
    return hooks or Hooks()
