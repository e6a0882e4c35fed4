"""Point reads: some records of one chain, without replaying what comes before them.

Each record's form, symbol, sequence, link and hash are checked; that its chain leads from the
beginning to it is what `headrace.sot.verify` recomputes.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.errors import ConfigurationError
from headrace.sot.chain import Position, follow
from headrace.sot.encoding import FRAME_HEADER, LENGTH, LENGTH_BYTES, decode
from headrace.sot.exceptions import DamagedLog
from headrace.sot.record import Record
from headrace.sot.store import Block, Head, SotStore

_NO_DIGEST = bytes(32)


class NoSuchRecord(ConfigurationError):
    """A symbol or a sequence that the log does not have (exit code 2).

    Attributes:
        symbol_id, seq: what was asked for; `seq` is None where the log does not have the symbol.
    """

    def __init__(self, where: str, symbol_id: int, seq: int | None = None, has: str = "") -> None:
        if seq is None:
            message = f"the log in {where} has no symbol {symbol_id}"
            hint = "headrace sot head lists those that it has"
        else:
            message = f"symbol {symbol_id} in {where} has no seq {seq}"
            hint = f"It has {has}"
        super().__init__(message, hint=hint)
        self.symbol_id = symbol_id
        self.seq = seq


def head_of(store: SotStore, symbol_id: int) -> Head:
    """Where a chain ends.

    Raises:
        NoSuchRecord: the log does not have the symbol.
    """
    head = store.head(symbol_id)
    if head is None:
        raise NoSuchRecord(store.location, symbol_id)
    return head


def read_frames(store: SotStore, symbol_id: int, first: int, last: int) -> Iterator[bytes]:
    """The frames of the records `first` to `last` of a symbol, both included, as runs.

    Raises:
        NoSuchRecord: the chain does not have all of them; nothing was handed on then.
        DamagedLog: behind the last good run.
    """
    head = head_of(store, symbol_id)
    for seq in (first, last):
        if not head.first_seq <= seq < head.position.next_seq or last < first:
            has = f"seq {head.first_seq} to {head.position.next_seq - 1}"
            if head.position.next_seq == head.first_seq:
                has = "none yet"
            raise NoSuchRecord(store.location, symbol_id, seq, has)
    return _runs(store, symbol_id, first, last)


def read_records(store: SotStore, symbol_id: int, first: int, last: int) -> Iterator[Record]:
    """The same as records."""
    for run in read_frames(store, symbol_id, first, last):
        yield from records_of(run)


def records_of(run: bytes) -> Iterator[Record]:
    """The records of a run that was checked."""
    offset = 0
    while offset < len(run):
        stop = offset + LENGTH_BYTES + LENGTH.unpack_from(run, offset)[0]
        yield decode(run[offset + LENGTH_BYTES : stop])
        offset = stop


def _runs(store: SotStore, symbol_id: int, first: int, last: int) -> Iterator[bytes]:
    position: Position | None = None
    for block in store.scan(symbol_id, from_seq=first, to_seq=last):
        begin = _offset_of(block, max(first, block.first_seq))
        if position is None:
            position = _before(block, begin, first)
        wanted = last + 1 - position.next_seq
        followed = follow(block.frames, begin, symbol_id, position, max_records=wanted)
        if followed.error is not None or followed.position.next_seq <= min(
            last, block.first_seq + block.count - 1
        ):
            seq = followed.position.next_seq
            reason = followed.error.message if followed.error else "another record is there"
            raise DamagedLog(block.where, reason, symbol_id=symbol_id, seq=seq)
        position = followed.position
        yield block.frames[begin : followed.offset]
        if position.next_seq > last:
            return
    seq = first if position is None else position.next_seq
    raise DamagedLog(store.location, "the record is not there", symbol_id=symbol_id, seq=seq)


def _offset_of(block: Block, seq: int) -> int:
    """Where a record of a block begins; behind the last one if its frames end before it."""
    offset, frames = 0, block.frames
    for _ in range(seq - block.first_seq):
        if offset + LENGTH_BYTES > len(frames):
            break
        offset += LENGTH_BYTES + LENGTH.unpack_from(frames, offset)[0]
    return offset


def _before(block: Block, offset: int, seq: int) -> Position:
    """A position in front of a record as the record itself names it; nothing is known of it."""
    prev_hash = 0
    if offset + FRAME_HEADER.size <= len(block.frames):
        prev_hash = FRAME_HEADER.unpack_from(block.frames, offset)[7]
    return Position(seq, prev_hash, _NO_DIGEST)
