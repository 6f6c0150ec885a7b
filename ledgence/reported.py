"""What the beginning of a report tells: the exception, and how the process ended, read without the rest."""

import json
import re
from dataclasses import dataclass

from ledgence.frames import last_own_place

STRING = r'"((?:[^"\\]|\\.)*)'
# A report's text begins with its error, and that with the names of the exception's class and its bases.
ERROR_CLASS = re.compile(rf'\s*\{{\s*"error":\s*\{{\s*"classes":\s*\[\s*{STRING}"')
#: What follows the classes, whose names hold no bracket; the message may be cut.
MESSAGE = re.compile(rf'[^\]]*\],\s*"message":\s*{STRING}')
TRACEBACK = re.compile(rf'",\s*"traceback":\s*{STRING}"')
EXIT_STATUS = re.compile(r'"?\s*\}?,\s*"exit_status":\s*(-?\d{1,9})\b')
NO_ERROR = re.compile(r'\s*\{\s*"error":\s*null')


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What a worker told of an attempt's end, as far as the beginning of its report holds it."""

    #: The dotted name of the exception's class; empty without any.
    error_class: str = ""
    message: str = ""
    #: Where the application's own code raised it: file and line.
    place: str = ""
    #: How the process ended: -N by signal N. None where it did not end, or nothing says so.
    exit_status: int | None = None

    @property
    def error_name(self) -> str:
        """The name of the class without its module."""
        return self.error_class.rpartition(".")[2]


def error_class(report_head: str) -> str:
    """Read the exception's class out of the first characters of a report; empty without any."""
    found = ERROR_CLASS.match(report_head)
    return found[1] if found else ""


def read_head(report_head: str) -> Reported:
    """Read the first characters of a report, which may be cut anywhere and written by anybody."""
    found = ERROR_CLASS.match(report_head)
    if found is None:
        ended = (nothing := NO_ERROR.match(report_head)) and EXIT_STATUS.match(report_head, nothing.end())
        return Reported(exit_status=int(ended[1]) if ended else None)
    message = MESSAGE.match(report_head, found.end())
    traceback = TRACEBACK.match(report_head, message.end()) if message else None
    ended = EXIT_STATUS.match(report_head, traceback.end()) if traceback else None
    return Reported(
        error_class=found[1],
        message=_read(message[1]) if message else "",
        place=last_own_place(_read(traceback[1])) if traceback else "",
        exit_status=int(ended[1]) if ended else None,
    )


def _read(written: str) -> str:
    """Return the text of a JSON string, or what is written where that is none, as where an escape is cut."""
    try:
        return str(json.loads(f'"{written}"', strict=False))
    except ValueError:
        return written
