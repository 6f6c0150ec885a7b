"""Frames on a stream socket: two lengths, a JSON header, and a body of bytes that nobody needs to encode again."""

import json
import struct
from collections.abc import Mapping
from typing import Any, Final

from ledgence_worker.errors import ProtocolError
from ledgence_worker.limits import RESULT_BYTES

#: Above the largest result with its header, and above the largest event with its header.
FRAME_BYTES: Final = RESULT_BYTES + 1024 * 1024

_LENGTHS: Final = struct.Struct(">II")
_ENCODE: Final = json.JSONEncoder(separators=(",", ":")).encode
_DECODE: Final = json.JSONDecoder().decode

#: Any: each message checks the members of its own header.
type Header = dict[str, Any]
type Frame = tuple[Header, bytes]


def encode(header: Mapping[str, object], body: bytes = b"") -> bytes:
    """Return one frame."""
    head = _ENCODE(header).encode()
    return b"".join((_LENGTHS.pack(len(head) + len(body), len(head)), head, body))


class Decoder:
    """Cuts a stream into frames. A frame above FRAME_BYTES or with a broken header raises ProtocolError."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Take the next bytes of the stream and return the frames that they complete."""
        if self._pending:
            self._pending += data
            if len(self._pending) < _LENGTHS.size:
                return []
            total, _ = _LENGTHS.unpack_from(self._pending)
            if total <= FRAME_BYTES and len(self._pending) < _LENGTHS.size + total:
                return []
            data = bytes(self._pending)
            self._pending.clear()
        frames = []
        start = 0
        while len(data) - start >= _LENGTHS.size:
            total, head = _LENGTHS.unpack_from(data, start)
            if total > FRAME_BYTES or head > total:
                raise ProtocolError(f"A frame claims {total} bytes with a header of {head}; at most {FRAME_BYTES}.")
            end = start + _LENGTHS.size + total
            if len(data) < end:
                break
            split = start + _LENGTHS.size + head
            frames.append((_header(data[start + _LENGTHS.size : split]), data[split:end]))
            start = end
        if start < len(data):
            self._pending += data[start:]
        return frames


def _header(text: bytes) -> Header:
    try:
        header = _DECODE(text.decode())
    except (ValueError, RecursionError):
        raise ProtocolError("A frame's header is not JSON.") from None
    if not isinstance(header, dict):
        raise ProtocolError("A frame's header is not an object.")
    return header
