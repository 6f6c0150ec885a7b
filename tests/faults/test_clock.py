"""A worker whose wall clock is wrong, or steps while it runs: nothing changes, for no decision reads it."""

import datetime
import shutil
import subprocess
from pathlib import Path

import pytest

from ledgence.models import State
from ledgence_worker.stopping import ExitCode
from tests.faults.site import SHORT_LEASE_SECONDS, Site, short_lease

pytestmark = [pytest.mark.process, pytest.mark.slow, short_lease]

HOUR = 3600
DAY = 24 * HOUR


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the library that falsifies the clock of the process that loads it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.fail(
            "A C compiler is missing, which builds the library that falsifies a clock: apt-get install gcc libc6-dev."
        )
    library = tmp_path_factory.mktemp("shim") / "clock_shim.so"
    source = Path(__file__).with_name("clock_shim.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    return library


def logged_at(output: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(output.split(",")[0])


def test_wrong_clock_that_steps_changes_nothing(site: Site, shim: Path, tmp_path: Path) -> None:
    offset = tmp_path / "offset"
    offset.write_text(str(400 * DAY))
    worker = site.worker(LD_PRELOAD=str(shim), CLOCK_OFFSET_FILE=str(offset), concurrency=2)
    skew = logged_at(worker.output) - datetime.datetime.now()
    assert abs(skew.total_seconds() - 400 * DAY) < HOUR / 2, "the worker's clock is not wrong"
    long = site.submit("hold-gil", 2 * SHORT_LEASE_SECONDS)
    site.wait_for_start(long)
    offset.write_text(str(-HOUR))
    retried = site.submit("die", max_attempts=2)
    assert site.wait_for_end(retried) is State.FAILED
    offset.write_text(str(HOUR))
    timed = site.submit("wait", site.gate("never"), timeout=1.0, max_attempts=1)
    assert site.wait_for_end(timed) is State.FAILED
    assert site.wait_for_end(long) is State.SUCCEEDED
    assert site.ends(long) == [(1, "succeeded")]
    assert site.ends(retried) == [(1, "crashed"), (2, "crashed")]
    assert site.ends(timed) == [(1, "timed_out")]
    for attempt in (*long.attempts, *retried.attempts, *timed.attempts):
        assert attempt.claimed_at is not None
        assert abs(attempt.claimed_at - datetime.datetime.now(datetime.UTC)) < datetime.timedelta(minutes=30)
    assert worker.stop() == ExitCode.CLEAN
