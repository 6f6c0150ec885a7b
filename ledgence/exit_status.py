"""What the exit status of a program's process tells, in words: the signal that killed it, and what to look into."""

import signal
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

if TYPE_CHECKING:
    from django_stubs_ext import StrPromise

#: Attempts that the worker itself stops, by killing their process where that is needed.
STOPPED = ("timed_out", "interrupted", "cancelled")
STOPPING = (-signal.SIGTERM, -signal.SIGKILL)
#: A shell says so of a command that it could not run, and adds this to the signal that killed one.
NOT_RUN = (126, 127)
SIGNALLED = 128

#: What sends a signal, and what to do about it.
SIGNALS: "dict[int, tuple[StrPromise, StrPromise]]" = {
    signal.SIGKILL: (
        gettext_lazy("killed by SIGKILL; often the machine's out-of-memory killer"),
        gettext_lazy(
            "Look into the kernel's log (dmesg, journalctl -k) on %(host)s. "
            "Limit or split the work, or give the machine more memory."
        ),
    ),
    signal.SIGTERM: (
        gettext_lazy("killed by SIGTERM; somebody asked this process to end, and not its worker"),
        gettext_lazy("Look for who stops processes on %(host)s: a deployment, a supervisor, a limit of time."),
    ),
    signal.SIGSEGV: (
        gettext_lazy("killed by SIGSEGV; native code touched memory that is not its own"),
        gettext_lazy("Look at the extension modules that the program uses, and at their versions on %(host)s."),
    ),
    signal.SIGABRT: (
        gettext_lazy("killed by SIGABRT; native code gave up by itself, often at a failed check or allocation"),
        gettext_lazy("Read the end of its output: the library that gave up says there why, on %(host)s."),
    ),
    signal.SIGBUS: (
        gettext_lazy("killed by SIGBUS; a file in memory was cut short, or a disk or shared memory is full"),
        gettext_lazy("Look at the disks and at /dev/shm on %(host)s."),
    ),
}


def name_exit(status: int) -> str:
    """Return a status with the name of its signal: "-9 (SIGKILL)"."""
    name = _signal_name(-status)
    return f"{status} ({name})" if name else str(status)


def explain_exit(status: int, outcome: str | None) -> str:
    """Say what ended the process of an attempt of this outcome."""
    if _is_by_worker(status, outcome):
        return _("killed by its worker with %(signal)s: it was to stop, and did not in time") % {
            "signal": _signal_name(-status)
        }
    if known := SIGNALS.get(_signal_in(status)):
        return str(known[0])
    if status < 0:
        return _("killed by signal %(signal)s") % {"signal": _signal_name(-status) or -status}
    if status in NOT_RUN:
        return _("a command that its process ran was not found, or may not be run")
    if status == 0:
        return _("its process ended by itself without a result, as by os._exit()")
    return _("its process ended by itself, as by os._exit() or in a library")


def advise_exit(status: int, outcome: str | None, host: str) -> str:
    """Say what to look into on the worker's host, and what helps; empty where the worker itself ended the process."""
    if _is_by_worker(status, outcome):
        return ""
    known = SIGNALS.get(_signal_in(status))
    advice = known[1] if known else gettext_lazy("Read the end of its output, and the worker's log on %(host)s.")
    return str(advice) % {"host": host or _("its machine")}


def _is_by_worker(status: int, outcome: str | None) -> bool:
    return outcome in STOPPED and status in STOPPING


def _signal_in(status: int) -> int:
    """Return the signal of a process, or of the command that a shell ran for it."""
    return -status if status < 0 else status - SIGNALLED


def _signal_name(number: int) -> str:
    return next((one.name for one in signal.Signals if one == number), "")
