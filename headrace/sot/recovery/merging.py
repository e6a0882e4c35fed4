"""All symbols as one stream in the order of a replay, whatever their number, in bounded memory.

Each symbol that is open holds one block. Beyond a number of them, groups are merged into temporary
files first, and those are merged: a merge sort on disk.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from headrace.sot.exceptions import DamagedLog
from headrace.sot.layout import FRAME_ROUTE, LENGTH_BYTES
from headrace.sot.position import Position
from headrace.sot.recovery.order import input_seq_of

#: Order, symbol, sequence; then the frame, or what ends the symbol there.
Item = tuple[int, int, int, "bytes | DamagedLog"]
#: Opens a stream of items in order.
Opener = Callable[[], Iterator[Item]]

#: Symbols, or temporary files, that are open at once: some 200 MB of blocks at the most.
FAN_IN: Final = 128

#: Behind every sequence that a record can have.
_BEHIND_ALL: Final = 2**64
_ENTRY: Final = struct.Struct("<QIQI")
_DAMAGE: Final = 2**32 - 1
_BUFFER_BYTES: Final = 256 * 1024


def items_of(symbol_id: int, runs: Iterable[tuple[bytes, Position]]) -> Iterator[Item]:
    """One symbol's records; damage becomes its last item, right behind the last good record."""
    order = 0
    try:
        for run, _ in runs:
            offset = 0
            while offset < len(run):
                length, _, seq = FRAME_ROUTE.unpack_from(run, offset)
                stop = offset + LENGTH_BYTES + length
                order = max(order, input_seq_of(run, offset))
                yield order, symbol_id, seq, run[offset:stop]
                offset = stop
    except DamagedLog as damage:
        yield order, symbol_id, _BEHIND_ALL, damage


def merged(streams: Sequence[Opener], scratch: Path, *, fan_in: int = FAN_IN) -> Iterator[Item]:
    """The items of all streams in order.

    Args:
        streams: how to open each; none is open before it is needed.
        scratch: an empty folder for temporary files.
        fan_in: how many are open at once.
    """
    level = 0
    while len(streams) > fan_in:
        groups = [streams[at : at + fan_in] for at in range(0, len(streams), fan_in)]
        streams = [
            _spilt(group, scratch / f"merge-{level}-{number}")
            for number, group in enumerate(groups)
        ]
        level += 1
    return heapq.merge(*(open_stream() for open_stream in streams))


def _spilt(group: Sequence[Opener], path: Path) -> Opener:
    """The group merged into a file; how to read it."""
    damages: list[DamagedLog] = []
    with path.open("wb", buffering=_BUFFER_BYTES) as file:
        for order, symbol_id, seq, content in heapq.merge(*(opened() for opened in group)):
            if isinstance(content, DamagedLog):
                file.write(_ENTRY.pack(order, symbol_id, len(damages), _DAMAGE))
                damages.append(content)
            else:
                file.write(_ENTRY.pack(order, symbol_id, seq, len(content)))
                file.write(content)

    def read() -> Iterator[Item]:
        with path.open("rb", buffering=_BUFFER_BYTES) as file:
            yield from _entries(file, damages)
        path.unlink()

    return read


def _entries(file: BinaryIO, damages: Sequence[DamagedLog]) -> Iterator[Item]:
    while head := file.read(_ENTRY.size):
        order, symbol_id, seq, size = _ENTRY.unpack(head)
        if size == _DAMAGE:
            yield order, symbol_id, _BEHIND_ALL, damages[seq]
        else:
            yield order, symbol_id, seq, file.read(size)
