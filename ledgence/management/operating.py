"""What the operators' commands share: who acts, how ids are given, two formats, and exit codes."""

import json
import os
import pwd
import sys
from argparse import ArgumentTypeError
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any
from uuid import UUID, uuid4

from django.core.management.base import CommandError, CommandParser

from ledgence.operations.actions import REASON_LENGTHS, Operator

FORMATS = ("text", "json")
#: Given as an id, it stands for those on the standard input.
STDIN = "-"


class OperatingCode(IntEnum):
    """How an operator's command ended."""

    # Everything that was asked for was done.
    DONE = 0
    # It could not be done; the standard error says why.
    REFUSED = 1
    # The options or ids are wrong; nothing was done.
    USAGE = 2
    # Some of what was named was left as it is; the answers say which, and why.
    SKIPPED = 3


EXIT_CODES = "Exit codes: 0 done; 1 it could not be done; 2 wrong usage, nothing was done; 3 some rows were skipped."


def add_format(parser: CommandParser) -> None:
    """Add ``--format`` to a command."""
    parser.add_argument(
        "--format", choices=FORMATS, default="text", help="text for people (default), or json for programs"
    )


def task_id(text: str) -> UUID:
    """Read a task's id from the command line."""
    try:
        return UUID(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} is no task's id") from error


def wrong_usage(text: str) -> CommandError:
    """Return the error of a command that was called wrongly, and has done nothing."""
    return CommandError(text, returncode=OperatingCode.USAGE)


def check_reason(reason: str) -> None:
    """Refuse a reason that the pages refuse too. Raises CommandError."""
    low, high = REASON_LENGTHS
    if not low <= len(reason.strip()) <= high:
        raise wrong_usage(f"A reason has {low} to {high:,} characters, not {len(reason.strip())}; nothing was changed.")


def make_operator(reason: str) -> Operator:
    """Return the account under which this process runs as who acts."""
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        name = f"user id {os.geteuid()}"
    return Operator(action_id=uuid4(), name=name, reason=reason)


def to_json(value: Any) -> str:
    """Write a value for programs: times as in ISO 8601, ids as text."""
    return json.dumps(value, indent=2, default=_encode, ensure_ascii=False)


def _encode(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Yield rows as lines of a table."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(map(str.ljust, row, widths)).rstrip()


def words_of_stdin() -> list[str]:
    """Read the words of the standard input."""
    return sys.stdin.read().split()
