"""The Linux calls that keep a tree of processes together. Elsewhere they answer that they cannot."""

import ctypes
import os
import signal
import sys
from typing import Final

IS_LINUX: Final = sys.platform == "linux"

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_libc: Final = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> bool:
    """Make every orphaned descendant a child of this process, also one that left its session."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> bool:
    """Have the kernel kill this process when its parent ends; end at once if that has happened already.

    The kernel watches the thread that started this process, so the parent must start it from one that lasts.
    """
    armed = _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    return armed


def children() -> list[int]:
    """Return the ids of this process's children, dead ones that were not waited for included. Empty off Linux."""
    if not IS_LINUX:
        return []
    pid = os.getpid()
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as listing:
            return [int(word) for word in listing.read().split()]
    except FileNotFoundError:
        # Some kernels are built without that file.
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and _parent(name) == pid]


def resident_bytes(pid: int) -> int:
    """Return the memory that a process holds, or 0 if it cannot be read."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


def flush_c_streams() -> None:
    """Write out what C code printed with stdio, which Python's own flush does not see."""
    _libc.fflush(None)


def _prctl(option: int, value: int) -> bool:
    return IS_LINUX and _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) == 0


def _parent(name: str) -> int:
    try:
        with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stat:
            return int(stat.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0
