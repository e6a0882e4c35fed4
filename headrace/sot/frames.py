"""Frames: a body with its length in front; runs of them, and streams that begin with a version.

A *run* is frames one after the other. A *stream* is `STREAM_MAGIC`, then a run; it is what files
and pipes hold. A `Chunk` is what every reader yields: some records, gathered by symbol.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

from headrace.sot.encoding import FRAME_ROUTE, LENGTH, LENGTH_BYTES, MAX_BODY_BYTES, MIN_FRAME_BYTES
from headrace.sot.exceptions import MalformedRecord

Item = TypeVar("Item")

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


class RunIndex:
    """Where each record of a run begins.

    Args:
        first_seq: of the first frame.
        run: consecutive records of one symbol, checked.
    """

    def __init__(self, first_seq: int, run: bytes) -> None:
        self.first_seq = first_seq
        self.run = run
        self._offsets: list[int] = []
        offset = 0
        while offset < len(run):
            self._offsets.append(offset)
            offset += LENGTH_BYTES + LENGTH.unpack_from(run, offset)[0]
        self._offsets.append(offset)

    @property
    def last_seq(self) -> int:
        """Of the last frame."""
        return self.first_seq + len(self._offsets) - 2

    def holds(self, seq: int) -> bool:
        """Whether the record is in it."""
        return self.first_seq <= seq <= self.last_seq

    def frame(self, seq: int) -> bytes:
        """The frame of a record that is in it."""
        place = seq - self.first_seq
        return self.run[self._offsets[place] : self._offsets[place + 1]]

    def same(self, seq: int, run: bytes, offset: int) -> tuple[int, int]:
        """How many records from `seq` on stand at `offset` of `run` byte for byte, and their size.

        All that both have, or none: a caller that gets none compares record by record.
        """
        start = self._offsets[seq - self.first_seq]
        size = min(len(self.run) - start, len(run) - offset)
        # Only whole frames count: cut back to the last border within both.
        last = bisect_right(self._offsets, start + size) - 1
        size = self._offsets[last] - start
        if size <= 0 or self.run[start : start + size] != run[offset : offset + size]:
            return 0, 0
        return last - (seq - self.first_seq), size


def in_groups(
    items: Iterable[Item], most: int, most_bytes: int, size_of: Callable[[Item], int]
) -> Iterator[list[Item]]:
    """Items in groups of so many, and of so many bytes; one that is larger makes its own group."""
    group: list[Item] = []
    size_bytes = 0
    for item in items:
        if group and (len(group) >= most or size_bytes + size_of(item) > most_bytes):
            yield group
            group, size_bytes = [], 0
        group.append(item)
        size_bytes += size_of(item)
    if group:
        yield group


#: What a reader reads at once. Chunks this large keep the work per record small; several of them
#: are in flight.
CHUNK_BYTES: Final = 1024 * 1024


@dataclass(slots=True)
class Chunk:
    """Records in the order in which they came, per symbol.

    Attributes:
        runs: frames of each symbol, in pieces.
        records: how many there are.
        size_bytes: of all frames.
    """

    runs: dict[int, list[bytes]] = field(default_factory=dict)
    records: int = 0
    size_bytes: int = 0

    def add(self, symbol_id: int, body: bytes) -> None:
        """Add one record."""
        framed = frame(body)
        self.runs.setdefault(symbol_id, []).append(framed)
        self.records += 1
        self.size_bytes += len(framed)
