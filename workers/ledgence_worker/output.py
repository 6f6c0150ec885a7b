"""What a managed process prints: logged line by line with its attempt, and its end kept for the report."""

import logging
import os
from typing import Final
from uuid import UUID

from ledgence_worker.limits import OUTPUT_TAIL_BYTES

LINES_PER_ATTEMPT: Final = 1000
LINE_BYTES: Final = 4096

_READ_BYTES: Final = 64 * 1024
#: Above the most that a pipe holds by default, and bounded: a process that goes on printing must not hold the worker.
_DRAIN_READS: Final = 16
_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) != "\t"}
_CONTROLS_BUT_NEWLINE: Final = {code: text for code, text in _CONTROLS.items() if chr(code) != "\n"}

logger = logging.getLogger("ledgence_worker.output")


class Output:
    """The reading end of one process's output pipe. Every read is bounded; control characters are spelled out."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self._tail = bytearray()
        self._begin("-", 0)

    def begin(self, task_id: UUID, number: int) -> None:
        """Attribute what is read from now on to an attempt, and forget what was kept of the last one."""
        self._tail.clear()
        self._begin(task_id, number)

    def read(self) -> bool:
        """Read once, at most 64 KiB. Return whether there may be more now; raises EOFError at the end."""
        try:
            data = os.read(self.descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            raise EOFError
        self._tail += data[-OUTPUT_TAIL_BYTES:]
        if len(self._tail) > 2 * OUTPUT_TAIL_BYTES:
            del self._tail[:-OUTPUT_TAIL_BYTES]
        if self._lines_left:
            self._log(data)
        return len(data) == _READ_BYTES

    def finish(self) -> str:
        """Read what is there, log the last line, and return the end of the output."""
        try:
            for _ in range(_DRAIN_READS):
                if not self.read():
                    break
        except EOFError:
            pass
        if not self._tail:
            return ""
        if self._partial:
            self._log(b"\n")
        text = self._tail[-OUTPUT_TAIL_BYTES:].decode(errors="replace").translate(_CONTROLS_BUT_NEWLINE)
        return text.encode()[-OUTPUT_TAIL_BYTES:].decode(errors="ignore")

    def close(self) -> None:
        """Close the pipe."""
        os.close(self.descriptor)

    def _begin(self, task: UUID | str, number: int) -> None:
        self._task, self._number = task, number
        self._partial = b""
        self._lines_left = LINES_PER_ATTEMPT if logger.isEnabledFor(logging.INFO) else 0

    def _log(self, data: bytes) -> None:
        lines = (self._partial + data).split(b"\n", self._lines_left)
        # Of a line without end only what will be logged is kept.
        self._partial = lines.pop()[: LINE_BYTES + 1]
        for line in lines:
            text = line[:LINE_BYTES].decode(errors="replace").translate(_CONTROLS)
            cut = " [cut]" if len(line) > LINE_BYTES else ""
            logger.info("task=%s attempt=%s line=%s%s", self._task, self._number, text, cut)
        self._lines_left -= len(lines)
        if self._lines_left == 0:
            self._partial = b""
            logger.info("further output not logged task=%s attempt=%s", self._task, self._number)
