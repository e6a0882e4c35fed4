"""A scan reads a chain block by block: every row must begin where the one before it ended."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, Final

from headrace.sot.chain import DIGEST_BYTES, Position
from headrace.sot.cql.chains import Chains
from headrace.sot.cql.session import CqlSession
from headrace.sot.cql.tables import BadPayload, Bucket, Payload, decompress, partition
from headrace.sot.encoding import from_signed, signed_ranges, to_signed, to_signed32
from headrace.sot.exceptions import DamagedLog
from headrace.sot.record import U64_MAX
from headrace.sot.store import Block

#: Rows in memory at once.
_PAGE: Final = 8


class Scan:
    """One scan, up to the head that it was opened with."""

    def __init__(self, session: CqlSession, chains: Chains, symbol_id: int) -> None:
        self._session = session
        self._chains = chains
        self._keyspace = session.settings.keyspace
        self._symbol_id = symbol_id
        self._last = chains.last(symbol_id)

    def blocks(self, from_seq: int, to_seq: int | None) -> Iterator[Block]:
        """The blocks that hold any of these records, in order.

        Raises:
            DamagedLog: at the first row that is missing, doubled or not what was written.
        """
        last = self._last
        if last is None or last.empty or from_seq >= last.head.next_seq:
            return
        end = last.head.next_seq - 1
        wanted = end if to_seq is None else min(to_seq, end)
        bucket = self._bucket_with(max(from_seq, last.first_seq))
        expected = None
        while True:
            if expected is not None and bucket.start_next != expected:
                raise self._damaged(
                    bucket, "it does not begin where the one before ended", expected
                )
            if bucket.start_next > wanted:
                return
            yield from self._within(bucket, from_seq, wanted)
            expected = bucket.head.next_seq
            if expected > wanted or bucket.number >= last.number:
                break
            bucket = self._bucket(bucket.number + 1)
        if wanted == end:
            self._refuse_rows_behind_head()

    def _within(self, bucket: Bucket, from_seq: int, wanted: int) -> Iterator[Block]:
        """One bucket's blocks, from the one that holds `from_seq`."""
        start = bucket.start_next
        if from_seq > start:
            start = self._block_with(bucket, from_seq)
        expected, previous = start, None
        limit = min(wanted, bucket.head.next_seq - 1)
        for row in self._rows(bucket, start, limit):
            first_seq = from_signed(row.output_seq)
            if first_seq != expected:
                raise self._damaged(bucket, "rows are missing", expected, first_seq - 1)
            block = self._block(bucket, row, first_seq, previous)
            yield block
            expected, previous = first_seq + block.count, block.after
        # The limit may lie within a block, but never behind the last one.
        if expected <= limit:
            raise self._damaged(bucket, "rows are missing", expected, bucket.head.next_seq - 1)
        if expected == bucket.head.next_seq and previous not in (None, bucket.head):
            raise self._damaged(bucket, "its last row does not lead to its head", expected - 1)

    def _rows(self, bucket: Bucket, low: int, high: int) -> Iterator[Any]:
        key = (to_signed32(self._symbol_id), bucket.number)
        for signed in signed_ranges(low, high):
            yield from self._session.pages("scan", *key, *signed, page=_PAGE)

    def _block(self, bucket: Bucket, row: Any, first_seq: int, previous: Position | None) -> Block:
        complete = all(
            value is not None
            for value in (row.records, row.prev_hash, row.hash, row.digest, row.codec)
        ) and not (row.raw_bytes is None or row.checksum is None or row.frames is None)
        if not complete or row.records < 1 or len(row.digest) != DIGEST_BYTES:
            raise self._damaged(bucket, "a row lacks a column", first_seq)
        count = row.records
        next_seq = first_seq + count
        if next_seq > bucket.head.next_seq:
            raise self._damaged(bucket, "a row goes beyond the head", first_seq)
        last_seq = next_seq - 1
        if previous is not None and from_signed(row.prev_hash) != previous.hash:
            reason = "a row does not link to the one before it"
            raise self._damaged(bucket, reason, first_seq, last_seq)
        payload = Payload(row.codec, row.raw_bytes, from_signed(row.checksum), row.frames)
        try:
            frames = decompress(payload)
        except BadPayload as bad:
            raise self._damaged(bucket, str(bad), first_seq, last_seq) from bad
        return Block(
            symbol_id=self._symbol_id,
            first_seq=first_seq,
            count=count,
            frames=frames,
            where=f"{partition(self._keyspace, self._symbol_id, bucket.number)}, "
            f"output_seq {to_signed(first_seq)}",
            after=Position(next_seq, from_signed(row.hash), row.digest),
        )

    def _bucket(self, number: int) -> Bucket:
        found = self._chains.bucket(self._symbol_id, number)
        if found is None:
            raise self._chains.missing(self._symbol_id, number)
        return found

    def _bucket_with(self, seq: int) -> Bucket:
        """The last bucket that begins at `seq` or before, by halving."""
        assert self._last is not None
        later = range(1, self._last.number + 1)
        low = bisect_right(later, seq, key=lambda number: self._bucket(number).start_next)
        # The head may have moved since; what is answered is the chain as it stood at the call.
        return self._last if low == self._last.number else self._bucket(low)

    def _block_with(self, bucket: Bucket, seq: int) -> int:
        """The sequence under which the block with `seq` is stored."""
        key = (to_signed32(self._symbol_id), bucket.number)
        for signed in reversed(signed_ranges(bucket.start_next, seq)):
            rows = self._session.read("before", *key, *signed)
            if rows:
                return from_signed(rows[0].output_seq)
        raise self._damaged(bucket, "rows are missing", bucket.start_next, seq)

    def _refuse_rows_behind_head(self) -> None:
        """A head that was turned back leaves rows behind it; an active writer does, too."""
        last = self._last
        assert last is not None
        if last.head.next_seq > U64_MAX:
            return
        for row in self._rows(last, last.head.next_seq, U64_MAX):
            # Read after the row was seen: its writer has moved the head with it.
            now = self._bucket(last.number)
            if from_signed(row.output_seq) >= now.head.next_seq:
                reason = "a row lies behind the head, so the head was turned back"
                raise self._damaged(last, reason, from_signed(row.output_seq))
            return

    def _damaged(
        self, bucket: Bucket, reason: str, seq: int, last_seq: int | None = None
    ) -> DamagedLog:
        where = partition(self._keyspace, self._symbol_id, bucket.number)
        return DamagedLog(where, reason, symbol_id=self._symbol_id, seq=seq, last_seq=last_seq)
