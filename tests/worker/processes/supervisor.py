"""A program for the tests that kill a worker: opens a pool, runs programs with children, and polls until it dies."""

import sys
from pathlib import Path

if __name__ == "__main__":
    root = Path(__file__).parent.parent.parent.parent
    sys.path[:0] = [str(root), str(root / "workers")]

from ledgence_worker.errors import LauncherLost
from ledgence_worker.pool_settings import PoolSettings
from ledgence_worker.processes import ProcessPool
from tests.worker.processes.conftest import ZOO, assignment, launcher_pid

LAUNCHER_LOST = 70


def main(folder: Path) -> int:
    environment = {"LEDGENCE_CHILD_MODULES": ZOO}
    pool = ProcessPool(
        PoolSettings(concurrency=3, bootstrap="ledgence_worker.bootstrap:import_modules", environment=environment)
    )
    pool.open()
    paths = [folder / "one", folder / "two"]
    for path in paths:
        pool.start(assignment("sleeps-with-child", {"path": str(path)}), deadline=None)
    pool.start(assignment("ignores-stop", {"path": str(folder / "three")}), deadline=None)
    while not all(path.exists() for path in [*paths, folder / "three"]):
        pool.poll(0.02)
    words = [path.read_text().split() for path in paths]
    (folder / "children").write_text(" ".join(pid for pids in words for pid in pids[:2]))
    (folder / "sessions").write_text(" ".join(pids[1] for pids in words))
    (folder / "launcher").write_text(str(launcher_pid()))
    (folder / "running.part").write_text(" ".join(sum(words, []) + [(folder / "three").read_text()]))
    (folder / "running.part").rename(folder / "running")
    try:
        while True:
            pool.poll(60.0)
    except LauncherLost:
        return LAUNCHER_LOST


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
