"""What a partition says about itself: the static columns, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from headrace.sot.cql.schema import LOG
from headrace.sot.exceptions import DamagedLog
from headrace.sot.position import DIGEST_BYTES, Position
from headrace.sot.store import Head
from headrace.sot.u64 import from_signed

_LEAST_NEXT, _MOST_NEXT = 0, 2**64


@dataclass(frozen=True, slots=True)
class Bucket:
    """A stretch of one symbol's chain: one partition.

    Attributes:
        number: from 0, without gaps.
        epoch, owner: of the last claim; `owner` is drawn anew by each, so that a claim whose
            answer was lost can be told from another's.
        first_seq: where the symbol's chain begins.
        start_next: the sequence with which this bucket begins.
        head: the position behind its last row.
        size_bytes: stored size of its rows.
        closed: nothing is added to it any more, and its epoch stays.
    """

    symbol_id: int
    number: int
    epoch: int
    owner: UUID | None
    first_seq: int
    start_next: int
    head: Position
    size_bytes: int
    closed: bool

    @property
    def symbol_head(self) -> Head:
        """The symbol's head, if this is its last bucket."""
        return Head(self.symbol_id, self.epoch, self.first_seq, self.head)

    @property
    def empty(self) -> bool:
        """Whether the chain itself has no record yet."""
        return self.number == 0 and self.head.next_seq == self.first_seq


def partition(keyspace: str, symbol_id: int, number: int) -> str:
    """A bucket's name in messages."""
    return f"{keyspace}.{LOG}, symbol_id {symbol_id}, bucket {number}"


def bucket_of(row: Any, keyspace: str, symbol_id: int, number: int) -> Bucket | None:
    """The bucket that a row of static columns describes, None if it was never begun.

    Raises:
        DamagedLog: some of the columns are missing or impossible.
    """
    if row.epoch is None and row.head_next is None and row.head_digest is None:
        return None
    values = (row.epoch, row.first_seq, row.start_next, row.head_next, row.head_hash)
    sound = (
        all(value is not None for value in values)
        and row.epoch >= 1
        and _LEAST_NEXT <= row.start_next <= row.head_next <= _MOST_NEXT
        and row.head_digest is not None
        and len(row.head_digest) == DIGEST_BYTES
        and row.closed is not None
    )
    if not sound:
        raise DamagedLog(
            partition(keyspace, symbol_id, number),
            "its head is incomplete or impossible",
            symbol_id=symbol_id,
        )
    return Bucket(
        symbol_id=symbol_id,
        number=number,
        epoch=row.epoch,
        owner=row.owner,
        first_seq=from_signed(row.first_seq),
        start_next=row.start_next,
        head=Position(row.head_next, from_signed(row.head_hash), row.head_digest),
        size_bytes=row.bucket_bytes or 0,
        closed=row.closed,
    )
