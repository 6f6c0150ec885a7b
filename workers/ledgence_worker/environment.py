"""The environment of managed processes: an allow-list, so that the worker's secrets stay with the worker."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import ledgence_worker

_NAMES: Final = frozenset(
    {
        *("PATH", "HOME", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV", "DJANGO_SETTINGS_MODULE", "DATABASE_URL"),
        # Some interpreters find their own library only by these.
        *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
    }
)
_PREFIXES: Final = ("LC_", "PYTHON", "LEDGENCE_CHILD_")


def allowed_environment(allow: Iterable[str], source: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return what may pass of ``source``: the built-in list, and ``allow``, of names and of "PREFIX_*"."""
    allowed = list(allow)
    names = _NAMES.union(allowed)
    prefixes = _PREFIXES + tuple(entry.removesuffix("*") for entry in allowed if entry.endswith("*"))
    return {name: value for name, value in source.items() if name in names or name.startswith(prefixes)}


def with_package_path(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with PYTHONPATH leading to this package, also in a checkout that is not installed."""
    root = str(Path(ledgence_worker.__file__).parent.parent)
    path = environment.get("PYTHONPATH")
    return {**environment, "PYTHONPATH": root if not path else root + os.pathsep + path}
