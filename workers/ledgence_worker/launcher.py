"""The launcher: a small process without threads that is the parent of all managed processes of one worker.

Only the parent of a process knows that its id still means it, and (on Linux) a subreaper gets every orphan below it.
So this process alone sends signals, and calls a managed process gone when it and all it started are reaped. The
worker's end of its socket is the lifeline: when that closes, for whatever reason, everything below is killed.
Off Linux only the process groups are killed: a process that leaves its group escapes.
"""

import contextlib
import os
import selectors
import signal
import socket
import sys
from collections import deque
from fcntl import F_DUPFD_CLOEXEC, fcntl
from typing import Final

from ledgence_worker import linux
from ledgence_worker.frames import Decoder, Header, encode

#: Where a managed process finds its channel; stdin, stdout and stderr come before it.
CHANNEL_DESCRIPTOR: Final = 3
_RECEIVE_BYTES: Final = 64 * 1024
_DESCRIPTORS_MAX: Final = 64
#: How long to wait before looking again for what refused to die, in seconds.
_AGAIN_SECONDS: Final = 0.1
_RESET_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ)


class Launcher:
    """Starts, signals and reaps managed processes, each named by the slot number that the worker gave it."""

    def __init__(self, lifeline: socket.socket) -> None:
        self._lifeline = lifeline
        self._decoder = Decoder()
        self._descriptors: deque[int] = deque()
        self._outgoing = bytearray()
        self._leaders: dict[int, int] = {}
        #: Exit statuses of slots whose leader is reaped, until their orphans are gone too.
        self._ending: dict[int, int] = {}
        #: Orphans that were killed, each with the slots that it may come from.
        self._orphans: dict[int, frozenset[int]] = {}
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Serve until the worker closes its end, then leave nothing behind."""
        wake, wake_sender = socket.socketpair()
        for end in (wake, wake_sender, self._lifeline):
            end.setblocking(False)
        signal.set_wakeup_fd(wake_sender.fileno(), warn_on_full_buffer=False)
        self._selector.register(wake, selectors.EVENT_READ)
        self._selector.register(self._lifeline, selectors.EVENT_READ)
        while True:
            ready = self._selector.select(_AGAIN_SECONDS if self._ending else None)
            if any(key.fileobj is wake for key, _ in ready):
                _drain(wake)
            if any(key.fileobj is self._lifeline for key, _ in ready) and not self._serve():
                return self._end_everything()
            self._reap_leaders()
            self._sweep_orphans()
            self._flush()

    def _serve(self) -> bool:
        """Carry out what the worker asks for; return False when it is gone."""
        try:
            data, ancillary, _, _ = self._lifeline.recvmsg(
                _RECEIVE_BYTES, socket.CMSG_SPACE(4 * _DESCRIPTORS_MAX), getattr(socket, "MSG_CMSG_CLOEXEC", 0)
            )
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        for _, _, packed in ancillary:
            for start in range(0, len(packed), 4):
                self._adopt_descriptor(int.from_bytes(packed[start : start + 4], sys.byteorder))
        for request, _ in self._decoder.feed(data):
            self._carry_out(request)
        return bool(data)

    def _adopt_descriptor(self, received: int) -> None:
        # Kept above the numbers that a managed process gets, so that duplicating never meets its own target.
        self._descriptors.append(fcntl(received, F_DUPFD_CLOEXEC, CHANNEL_DESCRIPTOR + 1))
        os.close(received)

    def _carry_out(self, request: Header) -> None:
        slot = request["slot"]
        if request["do"] == "spawn":
            self._spawn(slot, request["arguments"], request["environment"])
        elif slot in self._leaders:
            self._signal_group(self._leaders[slot], request["signal"])

    def _spawn(self, slot: int, arguments: list[str], environment: dict[str, str]) -> None:
        channel, output = self._descriptors.popleft(), self._descriptors.popleft()
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, output, 1),
            (os.POSIX_SPAWN_DUP2, output, 2),
            (os.POSIX_SPAWN_DUP2, channel, CHANNEL_DESCRIPTOR),
        ]
        command = [*arguments, str(CHANNEL_DESCRIPTOR), str(os.getpid())]
        # A session of its own is a group of its own, which no terminal can signal.
        session = {"setsid": True} if linux.IS_LINUX else {"setpgroup": 0}
        try:
            self._leaders[slot] = os.posix_spawn(
                command[0],
                command,
                environment,
                file_actions=actions,
                setsigmask=(),
                setsigdef=_RESET_SIGNALS,
                **session,
            )
        except OSError as error:
            self._reply({"event": "refused", "slot": slot, "error": str(error)})
        else:
            self._reply({"event": "spawned", "slot": slot, "pid": self._leaders[slot]})
        finally:
            os.close(channel)
            os.close(output)

    def _reap_leaders(self) -> None:
        for slot, pid in list(self._leaders.items()):
            # Seen but not yet reaped, the leader keeps its id, and with it the group's.
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                self._signal_group(pid, signal.SIGKILL)
                _, status = os.waitpid(pid, 0)
                del self._leaders[slot]
                self._ending[slot] = os.waitstatus_to_exitcode(status)

    def _sweep_orphans(self) -> None:
        """Kill and reap what ended slots left to us, and report the slots of which nothing is left.

        Each killed orphan may hand us its own children, so it is over only when a look finds nothing more to reap.
        """
        if not self._ending:
            return
        while True:
            leaders = set(self._leaders.values())
            found = [pid for pid in linux.children() if pid not in leaders]
            self._orphans = {pid: self._orphans.get(pid, frozenset(self._ending)) for pid in found}
            for pid in found:
                _kill(pid)
            if not any([_is_reaped(pid) for pid in found]):
                break
        held = frozenset[int]().union(*self._orphans.values())
        for slot in [slot for slot in self._ending if slot not in held]:
            self._reply({"event": "gone", "slot": slot, "status": self._ending.pop(slot)})

    def _end_everything(self) -> None:
        for pid in self._leaders.values():
            self._signal_group(pid, signal.SIGKILL)
        while True:
            for pid in linux.children():
                _kill(pid)
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                return

    def _signal_group(self, leader: int, signum: int) -> None:
        # macOS refuses to signal a group in which only dead processes are left.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signum)

    def _reply(self, message: Header) -> None:
        self._outgoing += encode(message)

    def _flush(self) -> None:
        """Send what the socket takes now: waiting could block both ends, each full of what the other must read."""
        try:
            while self._outgoing:
                del self._outgoing[: self._lifeline.send(self._outgoing)]
        except BlockingIOError:
            pass
        except ConnectionError:
            # The next read finds the end of the lifeline.
            self._outgoing.clear()
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0)
        if self._selector.get_key(self._lifeline).events != wanted:
            self._selector.modify(self._lifeline, wanted)


def _is_reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _kill(pid: int) -> None:
    # A process of another user cannot be killed: its slot stays unconfirmed.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _drain(wake: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        while wake.recv(1024):
            pass


def _note(signum: int, frame: object) -> None:
    """Do nothing: SIGCHLD only has to wake the loop, and a stop of the worker is for the worker to decide."""


def main() -> None:
    """Serve on the socket whose descriptor is the first argument."""
    for signum in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, _note)
    linux.become_subreaper()
    Launcher(socket.socket(fileno=int(sys.argv[1]))).run()


if __name__ == "__main__":
    main()
