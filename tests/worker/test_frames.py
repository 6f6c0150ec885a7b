"""Frames: cut out of a stream in any pieces, and refused when broken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgence_worker.errors import ProtocolError
from ledgence_worker.frames import FRAME_BYTES, Decoder, Frame, encode

frames = st.lists(st.tuples(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5)), st.binary()))


@given(frames, st.lists(st.integers(1, 9), min_size=1))
def test_frames_survive_any_cutting(sent: list[Frame], sizes: list[int]) -> None:
    stream = b"".join(encode(header, body) for header, body in sent)
    decoder = Decoder()
    received: list[Frame] = []
    position = turn = 0
    while position < len(stream):
        size = sizes[turn % len(sizes)]
        received += decoder.feed(stream[position : position + size])
        position, turn = position + size, turn + 1
    assert received == sent
    assert Decoder().feed(stream) == sent


def test_a_large_body_passes_in_pieces() -> None:
    body = b"x" * (FRAME_BYTES - 100)
    stream = encode({"a": 1}, body)
    decoder = Decoder()
    received = [
        frame for start in range(0, len(stream), 65536) for frame in decoder.feed(stream[start : start + 65536])
    ]
    assert received == [({"a": 1}, body)]


@pytest.mark.parametrize(
    "junk",
    [
        b"Hello, world!",
        (FRAME_BYTES + 1).to_bytes(4, "big") + (2).to_bytes(4, "big"),
        b"\0\0\0\x02\0\0\0\x03{}",
        b"\0\0\0\x02\0\0\0\x02[]",
        b"\0\0\0\x02\0\0\0\x02[}",
        b"\0\0\0\x02\0\0\0\x02\xff\xff",
        b"\0\0\0\0\0\0\0\0",
        b"\0\1\x86\xa0\0\1\x86\xa0" + b"[" * 100_000,
    ],
)
@pytest.mark.parametrize("piece", [1, 100_100])
def test_junk_is_refused(junk: bytes, piece: int) -> None:
    decoder = Decoder()
    with pytest.raises(ProtocolError):
        for start in range(0, len(junk), piece):
            decoder.feed(junk[start : start + piece])


def test_a_frame_too_large_is_refused_before_it_is_there() -> None:
    decoder = Decoder()
    decoder.feed(b"\xff")
    with pytest.raises(ProtocolError):
        decoder.feed(b"\xff\xff\xff\0\0\0\0")
