"""The effect log: what user code really did, on disk before it goes on. A witness outside the database."""

import os
from collections import Counter
from pathlib import Path
from typing import Final
from uuid import UUID

FOLDER_VARIABLE: Final = "LEDGENCE_CHILD_EFFECTS"


def record_start(task_id: UUID, number: int) -> None:
    """Append that an attempt's user code started, and wait until the disk has it. Does nothing without a folder."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return
    descriptor = os.open(Path(folder) / f"{os.getpid()}.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{task_id}.{number}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_starts(folder: Path) -> Counter[str]:
    """Count the starts of each attempt, "task.number", over all processes' logs."""
    return Counter(line for log in folder.glob("*.log") for line in log.read_text().splitlines())
