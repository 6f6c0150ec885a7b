"""The messages on a managed process's private channel: the headers of its frames, and their checks."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

from ledgence_worker.errors import ProtocolError
from ledgence_worker.frames import Header
from ledgence_worker.limits import ERROR_MESSAGE_BYTES, RESULT_BYTES, TRACEBACK_BYTES
from ledgence_worker.protocol import Assignment, CatalogueEntry, EarlierAttempt, ErrorReport

#: Supervisor and child may come from different installations after an upgrade: they must speak the same version.
VERSION: Final = 1


class EndKind(StrEnum):
    """What became of a program, as its process tells it."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    # It ended by an exception after it had been asked to stop.
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndMessage:
    """The end of an invocation. ``is_clean``: the process may run another attempt."""

    kind: EndKind
    result: str | None
    error: ErrorReport | None
    is_clean: bool


def hello(*, bootstrap: str, path: Iterable[str], python_path: str | None) -> Header:
    """Return the first message to a child: what to load, with the supervisor's own import path."""
    return {"hello": VERSION, "bootstrap": bootstrap, "path": list(path), "python_path": python_path}


def ready(catalogue: Iterable[CatalogueEntry]) -> Header:
    """Return a child's answer when its programs are loaded."""
    return {"ready": VERSION, "catalogue": [[entry.name, entry.version, entry.entry_point] for entry in catalogue]}


def not_ready(error: ErrorReport) -> Header:
    """Return a child's answer when its programs cannot be loaded."""
    return {"not_ready": VERSION, "error": asdict(error)}


def invocation(assignment: Assignment, *, nonce: str, remaining_seconds: float | None) -> Header:
    """Return the header of an invocation; its body is the event."""
    return {
        "invoke": nonce,
        "program": assignment.program,
        "version": assignment.version,
        "cause": assignment.cause,
        "remaining": remaining_seconds,
        "earlier": [[e.number, e.cause, e.outcome, e.finished_at] for e in assignment.earlier],
    }


def earlier_attempts(header: Header) -> tuple[EarlierAttempt, ...]:
    """Return the earlier attempts that an invocation tells of."""
    return tuple(
        EarlierAttempt(number=number, cause=cause, outcome=outcome, finished_at=finished_at)
        for number, cause, outcome, finished_at in header["earlier"]
    )


def end(nonce: str, kind: EndKind, *, is_clean: bool, error: ErrorReport | None) -> Header:
    """Return the header of an invocation's end; its body is the result of a program that succeeded."""
    return {"end": nonce, "kind": kind, "clean": is_clean, "error": None if error is None else asdict(error)}


def read_ready(header: Header) -> tuple[CatalogueEntry, ...] | ErrorReport:
    """Read a child's first message: its catalogue, or why it has none. Raises ProtocolError."""
    if header.get("not_ready") == VERSION:
        return _error_report(header.get("error"))
    if header.get("ready") != VERSION or not isinstance(header.get("catalogue"), list):
        raise ProtocolError("The process did not answer the handshake of this version: restart the worker.")
    entries = []
    for entry in header["catalogue"]:
        if not isinstance(entry, list) or len(entry) != 3 or not all(isinstance(word, str) for word in entry):
            raise ProtocolError("The process reported a malformed catalogue.")
        entries.append(CatalogueEntry(name=entry[0], version=entry[1], entry_point=entry[2]))
    return tuple(entries)


def read_end(header: Header, body: bytes, *, nonce: str) -> EndMessage:
    """Read the end of the invocation that has this nonce. Raises ProtocolError."""
    if header.get("end") != nonce:
        raise ProtocolError("The process sent something else than the end of its invocation.")
    clean, error = header.get("clean"), header.get("error")
    try:
        kind = EndKind(header["kind"])
    except (KeyError, ValueError):
        raise ProtocolError("The process sent a malformed end.") from None
    if not isinstance(clean, bool):
        raise ProtocolError("The process sent a malformed end.")
    succeeded = kind is EndKind.SUCCEEDED
    if succeeded != (error is None) or succeeded != bool(body) or len(body) > RESULT_BYTES:
        raise ProtocolError("The process sent an end whose result and error do not fit its outcome.")
    try:
        result = body.decode() if succeeded else None
    except UnicodeDecodeError:
        raise ProtocolError("The process sent a result that is not UTF-8.") from None
    report = None if error is None else _error_report(error)
    return EndMessage(kind=kind, result=result, error=report, is_clean=clean)


def _error_report(value: object) -> ErrorReport:
    if isinstance(value, dict):
        classes, message, trace = value.get("classes"), value.get("message"), value.get("traceback")
        if (
            isinstance(classes, list)
            and all(isinstance(name, str) for name in classes)
            and isinstance(message, str)
            and isinstance(trace, str)
            and len(message) <= ERROR_MESSAGE_BYTES
            and len(trace) <= TRACEBACK_BYTES
        ):
            return ErrorReport(classes=tuple(classes), message=message, traceback=trace)
    raise ProtocolError("The process sent a malformed error report.")
