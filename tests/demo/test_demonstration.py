"""What the demonstration does when what it waits for will not come."""

import subprocess
import sys
from pathlib import Path

import pytest

from ledgence_project.demo.demonstration import Demonstration, Hopeless

pytestmark = pytest.mark.django_db


def demonstration(folder: Path, *, seconds: float = 60.0) -> Demonstration:
    return Demonstration(effects=folder, concurrency=1, timeout_seconds=seconds, say=str)


def ended() -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(2)"])
    process.wait()
    return process


def test_a_worker_that_ends_is_not_waited_for(tmp_path: Path):
    with pytest.raises(Hopeless, match=r"no worker is left \(exit codes \[2\]\)"):
        demonstration(tmp_path)._kill(ended(), [])


def test_time_is_not_waited_for_either(tmp_path: Path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        with pytest.raises(Hopeless, match="gave up waiting for the first worker"):
            demonstration(tmp_path, seconds=0.0)._kill(process, [])
        process.kill()
