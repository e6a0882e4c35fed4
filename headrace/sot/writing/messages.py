"""Messages between a worker process and the process that feeds it.

Records go down as one message per chunk: when it was read, a table of symbols and lengths, the
frames. Everything else goes up, as MessagePack.

A message is its length (u64, little endian) and its bytes; it may have a megabyte. At these rates
every copy into fresh memory counts, and general-purpose connections make some: what is sent goes to
the kernel in pieces, what is received goes into one buffer.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from headrace.sot.chain import SentPosition
from headrace.sot.writing.options import WriteOptions
from headrace.sot.writing.stats import Histogram, Problem, ShardStats

_LENGTH_BYTES: Final = 8
#: Pieces per call; systems take 1024 at least.
_PIECES: Final = 512
#: The default of 64 kB would cost a change of process for each of them.
_CAPACITY: Final = 1024 * 1024


def make_pipe() -> tuple[int, int]:
    """Descriptors to read from and to write to; neither is inherited unasked."""
    reader, writer = os.pipe()
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):  # a system may allow less; then it is slower
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _CAPACITY)
    return reader, writer


def send(descriptor: int, pieces: Sequence[bytes]) -> None:
    """Send one message.

    Raises:
        OSError: the other end is closed.
    """
    size = sum(map(len, pieces))
    left = [memoryview(piece) for piece in (size.to_bytes(_LENGTH_BYTES, "little"), *pieces)]
    while left:
        written = os.writev(descriptor, left[:_PIECES])
        done = 0
        while done < len(left) and written >= len(left[done]):
            written -= len(left[done])
            done += 1
        left = left[done:]
        if written:
            left[0] = left[0][written:]


def receive(descriptor: int) -> bytearray:
    """The next message.

    Raises:
        EOFError: the other end is closed.
    """
    length = _filled(descriptor, _LENGTH_BYTES)
    return _filled(descriptor, int.from_bytes(length, "little"))


def _filled(descriptor: int, size: int) -> bytearray:
    buffer = bytearray(size)
    view = memoryview(buffer)
    got = 0
    while got < size:
        count = os.readv(descriptor, [view[got:]])
        if not count:
            raise EOFError
        got += count
    view.release()
    return buffer


_HEAD: Final = struct.Struct("<dI")
_ITEM: Final = struct.Struct("<II")
#: The message after the last records.
END: Final = b""


class Job(msgspec.Struct, frozen=True):
    """The first message: what to write, and where."""

    location: str
    shards: list[int]
    options: WriteOptions


class Ack(msgspec.Struct, frozen=True, array_like=True):
    """Records of one symbol that are durable now: from `first_seq` to before `after`."""

    symbol_id: int
    first_seq: int
    after: SentPosition

    @property
    def end(self) -> int:
        """The sequence behind the last one."""
        return int(self.after.next_seq)


class Done(msgspec.Struct, tag=True):
    """So many bytes wait no longer: there is room for as many."""

    size_bytes: int


class Acked(msgspec.Struct, tag=True):
    """A commit succeeded."""

    acks: list[Ack]


class SymbolCount(msgspec.Struct):
    """One symbol at the end of a run."""

    symbol_id: int
    end: SentPosition
    parked: int
    delay: Histogram | None


class Finished(msgspec.Struct, tag=True):
    """Everything that was sent is linked and committed, parked or refused."""

    shards: list[ShardStats]
    symbols: list[SymbolCount]
    duplicates: int
    refused: int
    problems: list[Problem]
    counts: dict[str, int]
    repairs: list[str]


class Failed(msgspec.Struct, tag=True):
    """The worker gave up; what it acknowledged is stored."""

    where: str
    action: str
    reason: str
    hint: str


Upward = Done | Acked | Finished | Failed


def pack_records(arrived_s: float, runs: dict[int, bytes]) -> list[bytes]:
    """The message for these records, in pieces."""
    table = b"".join(_ITEM.pack(symbol_id, len(run)) for symbol_id, run in runs.items())
    return [_HEAD.pack(arrived_s, len(runs)), table, *runs.values()]


def unpack_records(message: bytearray) -> Iterator[tuple[float, int, bytes]]:
    """When, which symbol and which frames."""
    arrived_s, count = _HEAD.unpack_from(message)
    table = _HEAD.size
    offset = table + count * _ITEM.size
    view = memoryview(message)
    for symbol_id, size in _ITEM.iter_unpack(view[table:offset]):
        yield arrived_s, symbol_id, bytes(view[offset : offset + size])
        offset += size
