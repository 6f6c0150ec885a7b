"""Runs the tests on each mutant, two at a time, and prints a table; fails if one of them survives."""

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.catalogue import MUTANTS, Mutant

CHECKOUT = Path(__file__).resolve().parents[2]
# A mutant that waits for ever is killed by its test's time-out.
TEST_SECONDS = 20
RUN_SECONDS = 300
# What pytest exits with: all tests passed, some failed. Anything else means that they did not run.
PASSED, FAILED = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What became of one mutant."""

    mutant: Mutant
    verdict: str
    seconds: float
    noticed_by: str
    output: str


def run(mutant: Mutant) -> Run:
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "--durations=0", "-p", "no:cacheprovider"),
        *("-p", "tests.mutants.plugin", "--mutant", mutant.name, "-m", "not slow", f"--timeout={TEST_SECONDS}"),
        *(f"tests/ledger/{test}" for test in mutant.tests),
    ]
    started = time.monotonic()
    try:
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=RUN_SECONDS)
        output, code = done.stdout + done.stderr, done.returncode
    except subprocess.TimeoutExpired as late:
        output, code = str(late.stdout), FAILED
    verdict = {PASSED: "SURVIVED", FAILED: "killed"}.get(code, f"DID NOT RUN ({code})")
    seconds = time.monotonic() - started
    return Run(mutant=mutant, verdict=verdict, seconds=seconds, noticed_by=failed_test(output), output=output)


def failed_test(output: str) -> str:
    """Return the name of the test that failed."""
    for line in output.splitlines():
        if line.startswith(("FAILED ", "ERROR ")):
            return line.split(" - ")[0].split("::", 1)[-1]
        if "+ Timeout +" in line:
            return "a test that waited for ever"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a mutant's name; all when none is given")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    chosen = [m for m in MUTANTS if not given.names or any(name in m.name for name in given.names)]
    runs = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for done in pool.map(run, chosen):
            runs.append(done)
            say(f"{done.verdict:8} {done.seconds:5.1f} s  {done.mutant.name:46} {done.noticed_by[:80]}")
    wrong = [done for done in runs if done.verdict != "killed"]
    for done in wrong:
        say(f"\n{done.mutant.name}: {done.verdict}\n{done.output[-3000:]}")
    say(f"mutants: {len(runs)}, killed: {len(runs) - len(wrong)}")
    return 1 if wrong or not runs else 0


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
