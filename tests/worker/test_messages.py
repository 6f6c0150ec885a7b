"""The messages of managed processes are checked as what a stranger sent."""

import json
from typing import Any

import pytest

from ledgence_worker.errors import ProtocolError
from ledgence_worker.limits import ERROR_MESSAGE_BYTES, RESULT_BYTES, TRACEBACK_BYTES
from ledgence_worker.messages import VERSION, EndKind, end, not_ready, read_end, read_ready, ready
from ledgence_worker.protocol import CatalogueEntry, ErrorReport

ERROR = ErrorReport(classes=("builtins.ValueError",), message="m", traceback="t")
ENTRY = CatalogueEntry(name="a", version="1", entry_point="m:f")


def wire(header: dict[str, Any]) -> dict[str, Any]:
    """Return the header as the other side reads it."""
    read: dict[str, Any] = json.loads(json.dumps(header))
    return read


def test_ends_are_read_as_they_were_written() -> None:
    read = read_end(wire(end("n", EndKind.SUCCEEDED, is_clean=True, error=None)), b"null", nonce="n")
    assert (read.kind, read.result, read.error, read.is_clean) == (EndKind.SUCCEEDED, "null", None, True)
    read = read_end(wire(end("n", EndKind.FAILED, is_clean=False, error=ERROR)), b"", nonce="n")
    assert (read.kind, read.result, read.error, read.is_clean) == (EndKind.FAILED, None, ERROR, False)


@pytest.mark.parametrize(
    ("changes", "body"),
    [
        ({"end": "other"}, b"1"),
        ({"end": None}, b"1"),
        ({"kind": "lost"}, b"1"),
        ({"kind": []}, b"1"),
        ({"kind": None}, b"1"),
        ({"clean": 1}, b"1"),
        ({"clean": None}, b"1"),
        ({}, b""),
        ({}, b"\xff"),
        ({}, b"x" * (RESULT_BYTES + 1)),
        ({"error": {"classes": [], "message": "", "traceback": ""}}, b"1"),
        ({"kind": "failed"}, b""),
        ({"kind": "failed", "error": "x"}, b""),
        ({"kind": "failed", "error": {"classes": [1], "message": "", "traceback": ""}}, b""),
        ({"kind": "failed", "error": {"classes": [], "message": None, "traceback": ""}}, b""),
        ({"kind": "failed", "error": {"classes": [], "message": "", "traceback": "x" * (TRACEBACK_BYTES + 1)}}, b""),
        (
            {"kind": "failed", "error": {"classes": [], "message": "x" * (ERROR_MESSAGE_BYTES + 1), "traceback": ""}},
            b"",
        ),
        ({"kind": "failed", "error": {"classes": [], "message": "", "traceback": ""}}, b"1"),
    ],
)
def test_a_wrong_end_is_refused(changes: dict[str, Any], body: bytes) -> None:
    header = wire(end("n", EndKind.SUCCEEDED, is_clean=True, error=None))
    read_end(header, b"1", nonce="n")
    with pytest.raises(ProtocolError):
        read_end(header | changes, body, nonce="n")


def test_handshakes_are_read_as_they_were_written() -> None:
    assert read_ready(wire(ready([ENTRY]))) == (ENTRY,)
    assert read_ready(wire(not_ready(ERROR))) == ERROR


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"ready": VERSION + 1, "catalogue": []},
        {"ready": VERSION},
        {"ready": VERSION, "catalogue": {}},
        {"ready": VERSION, "catalogue": [["a", "1"]]},
        {"ready": VERSION, "catalogue": [["a", "1", 1]]},
        {"not_ready": VERSION},
        {"end": "n"},
    ],
)
def test_a_wrong_handshake_is_refused(header: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        read_ready(header)
