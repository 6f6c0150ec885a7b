"""The allow-list of managed processes' environment."""

import os
from pathlib import Path

import ledgence_worker
from ledgence_worker.environment import allowed_environment, with_package_path


def test_only_listed_names_pass() -> None:
    source = {
        "PATH": "/bin",
        "LC_TIME": "C",
        "PYTHONHASHSEED": "1",
        "LEDGENCE_CHILD_X": "1",
        "LEDGENCE_API_TOKEN": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "PATHS": "secret",
        "LD_PRELOAD": "/tmp/evil.so",
        "LD_LIBRARY_PATH": "/opt/python/lib",
        "MINE": "1",
    }
    allowed = allowed_environment(["MINE", "ABSENT"], source)
    assert set(allowed) == {"PATH", "LD_LIBRARY_PATH", "LC_TIME", "PYTHONHASHSEED", "LEDGENCE_CHILD_X", "MINE"}


def test_the_package_is_found_first() -> None:
    root = str(Path(ledgence_worker.__file__).parent.parent)
    assert with_package_path({})["PYTHONPATH"] == root
    assert with_package_path({"PYTHONPATH": "/a"})["PYTHONPATH"] == f"{root}{os.pathsep}/a"
