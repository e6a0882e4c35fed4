"""Frames: a body with its length in front; runs of them, and streams that begin with a version.

A *run* is frames one after the other. A *stream* is `STREAM_MAGIC`, then a run; it is what files
and pipes hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from headrace.sot.exceptions import MalformedRecord
from headrace.sot.layout import FRAME_ROUTE, LENGTH, LENGTH_BYTES, MAX_BODY_BYTES, MIN_FRAME_BYTES

#: Six letters and the version of the framing, u16 little endian.
STREAM_NAME: Final = b"HRSOTS"
STREAM_VERSION: Final = 1
STREAM_MAGIC: Final = STREAM_NAME + STREAM_VERSION.to_bytes(2, "little")


def frame(body: bytes) -> bytes:
    """The frame of `body`."""
    return LENGTH.pack(len(body)) + body


def join(bodies: Iterable[bytes]) -> bytes:
    """The run of these bodies."""
    return b"".join(map(frame, bodies))


def bodies(run: bytes) -> Iterator[bytes]:
    """The bodies of a run, in order; only the framing is checked.

    Raises:
        MalformedRecord: if the run does not end with a frame.
    """
    offset, size = 0, len(run)
    while offset < size:
        stop = end_of_frame(run, offset)
        if stop is None:
            raise MalformedRecord("", f"the last frame is cut off, {size - offset} bytes are left")
        yield run[offset + LENGTH_BYTES : stop]
        offset = stop


def end_of_frame(run: bytes, offset: int) -> int | None:
    """Where the frame at `offset` ends, None if it goes beyond the run.

    Raises:
        MalformedRecord: if its length is one that no frame has.
    """
    if len(run) - offset < LENGTH_BYTES:
        return None
    (length,) = LENGTH.unpack_from(run, offset)
    check_length(length)
    stop: int = offset + LENGTH_BYTES + length
    return stop if stop <= len(run) else None


def check_length(length: int) -> None:
    """Return if a frame may have a body of this many bytes.

    Raises:
        MalformedRecord: if not. A wrong length would send a reader anywhere.
    """
    least = MIN_FRAME_BYTES - LENGTH_BYTES
    if not least <= length <= MAX_BODY_BYTES:
        raise MalformedRecord(
            "length", f"is {length}, a body has {least} to {MAX_BODY_BYTES} bytes"
        )


def identity(body: bytes) -> tuple[int, int]:
    """The symbol and sequence of a body, which must be as long as a header at least."""
    symbol_id, seq = FRAME_ROUTE.unpack_from(LENGTH.pack(len(body)) + body[:_ROUTE_BYTES])[1:]
    return symbol_id, seq


_ROUTE_BYTES: Final = FRAME_ROUTE.size - LENGTH_BYTES
