"""A symbol's buckets: which is the last, how the next one begins, who may write; commits; scans.

A bucket is closed by the commit that fills it, in the same conditional step; from then on its epoch
and its head cannot change. So every writer that needs the next one can begin it, with the same
values as any other, and only if it does not exist. A writer whose bucket was closed behind its back
meets a condition that does not hold, and looks again.

A commit is one batch in one conditional step: the head moves and the rows appear, or neither. A
batch whose answer was lost is looked for: its row carries the digest over all that precedes its
end, so finding that digest under its sequence means that exactly this batch is stored.

A scan reads a chain block by block: every row must begin where the one before it ended.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID, uuid4

from headrace.sot.chain import DIGEST_BYTES, Position, genesis
from headrace.sot.cql.session import CqlSession, Patience, Uncertain
from headrace.sot.cql.tables import (
    BadPayload,
    Bucket,
    Payload,
    bucket_of,
    compress,
    decompress,
    partition,
)
from headrace.sot.encoding import from_signed, from_signed32, signed_ranges, to_signed, to_signed32
from headrace.sot.exceptions import DamagedLog
from headrace.sot.record import U64_MAX
from headrace.sot.store import Answer, Batch, Block, Head, Outcome


class Chains:
    """The buckets of all symbols, with the last one of each remembered."""

    def __init__(self, session: CqlSession) -> None:
        self._session = session
        self._keyspace = session.settings.keyspace
        #: What this process last saw; conditions decide, so it may be out of date.
        self.known: dict[int, Bucket] = {}
        #: Symbols with a partition when this was first asked.
        self._with_chain: frozenset[int] | None = None

    def symbols(self) -> list[int]:
        """Every symbol in any of the tables: none of them is complete for certain."""
        found: set[int] = set()
        for name in ("registered", "with_chain", "with_parked"):
            found |= {from_signed32(row.symbol_id) for row in self._session.read(name)}
        return sorted(found)

    def register(self, symbol_id: int) -> None:
        """Make the symbol known before anything of it is stored."""
        if symbol_id not in self.known:
            self._session.write("register", to_signed32(symbol_id))

    def bucket(self, symbol_id: int, number: int) -> Bucket | None:
        """One bucket as it is now, linearizable; None if it was never begun."""
        rows = self._session.read("bucket", to_signed32(symbol_id), number, serial=True)
        return bucket_of(rows[0], self._keyspace, symbol_id, number) if rows else None

    def last(self, symbol_id: int) -> Bucket | None:
        """The symbol's last bucket, None if it was never claimed.

        Raises:
            DamagedLog: a bucket that there must have been is gone.
        """
        remembered = self.known.get(symbol_id)
        noted = remembered.number if remembered else self._noted(symbol_id)
        number = noted or 0
        bucket = self.bucket(symbol_id, number)
        if bucket is None:
            if noted is None and symbol_id not in self._chains_at_first():
                return None
            raise self.missing(symbol_id, number)
        while bucket.closed and (following := self.bucket(symbol_id, bucket.number + 1)):
            bucket = following
        self.known[symbol_id] = bucket
        return bucket

    def writable(self, symbol_id: int) -> Bucket | None:
        """The last bucket, open: the next one is begun if the last is closed."""
        bucket = self.last(symbol_id)
        while bucket is not None and bucket.closed:
            self._begin(symbol_id, bucket.number + 1, bucket.symbol_head, bucket.owner or uuid4())
            self._session.write("note_bucket", bucket.number + 1, to_signed32(symbol_id))
            bucket = self.last(symbol_id)
        return bucket

    def claim(self, symbol_id: int, first_seq: int) -> Head:
        """As `SotStore.claim`. A claim whose answer was lost is known by its owner's mark."""
        self.register(symbol_id)
        owner = uuid4()
        patience = Patience(self._session, f"claiming symbol {symbol_id}")
        while True:
            bucket = self.writable(symbol_id)
            if bucket is not None and bucket.owner == owner:
                # From here on, a first bucket that is gone was taken away.
                self._session.write("note_bucket", bucket.number, to_signed32(symbol_id))
                return bucket.symbol_head
            if bucket is None:
                head = Head(symbol_id, 1, first_seq, genesis(symbol_id, first_seq))
                self._begin(symbol_id, 0, head, owner)
                continue
            try:
                claimed = self._raise_epoch(bucket, first_seq, owner)
            except Uncertain as lost:
                patience.pause(lost.reason)
                continue
            if claimed is not None:
                self._session.write("note_bucket", bucket.number, to_signed32(symbol_id))
                self.known[symbol_id] = claimed
                return claimed.symbol_head
            patience.pause("other writers claim it at the same time")

    def missing(self, symbol_id: int, number: int) -> DamagedLog:
        """What is wrong where a bucket is gone."""
        return DamagedLog(
            partition(self._keyspace, symbol_id, number),
            "the bucket is gone, or its head is",
            symbol_id=symbol_id,
        )

    def _noted(self, symbol_id: int) -> int | None:
        """Where to begin looking: the number noted last, which may be behind, never ahead."""
        rows = self._session.read("symbol", to_signed32(symbol_id))
        return rows[0].last_bucket if rows else None

    def _chains_at_first(self) -> frozenset[int]:
        """A symbol that has partitions, but neither a note nor a first bucket, lost both."""
        if self._with_chain is None:
            rows = self._session.read("with_chain")
            self._with_chain = frozenset(from_signed32(row.symbol_id) for row in rows)
        return self._with_chain

    def _begin(self, symbol_id: int, number: int, head: Head, owner: UUID) -> None:
        """Begin a bucket unless it was; the caller looks at what came of it."""
        position = head.position
        statement = self._session.bound(
            "begin_bucket",
            head.epoch,
            owner,
            to_signed(head.first_seq),
            position.next_seq,
            position.next_seq,
            to_signed(position.hash),
            position.digest,
            to_signed32(symbol_id),
            number,
        )
        patience = Patience(self._session, f"beginning bucket {number} of symbol {symbol_id}")
        while True:
            try:
                self._session.conditional(statement)
            except Uncertain as lost:
                patience.pause(lost.reason)
            else:
                return

    def _raise_epoch(self, bucket: Bucket, first_seq: int, owner: UUID) -> Bucket | None:
        """The bucket as it is under the new epoch; None if it was changed meanwhile.

        A chain that has no record yet begins where the latest claim says.
        """
        claimed = replace(bucket, epoch=bucket.epoch + 1, owner=owner)
        if bucket.empty:
            head = genesis(bucket.symbol_id, first_seq)
            claimed = replace(claimed, first_seq=first_seq, start_next=first_seq, head=head)
        statement = self._session.bound(
            "claim",
            claimed.epoch,
            owner,
            to_signed(claimed.first_seq),
            claimed.start_next,
            claimed.head.next_seq,
            to_signed(claimed.head.hash),
            claimed.head.digest,
            to_signed32(bucket.symbol_id),
            bucket.number,
            bucket.epoch,
            bucket.head.next_seq,
            bucket.head.digest,
        )
        return claimed if self._session.conditional(statement) else None


#: How often a condition may fail although all that can be read agrees with it.
_UNEXPLAINED = 3


@dataclass
class _Attempt:
    """A batch under way.

    Attributes:
        bucket: where it was last sent to.
        future: of the request that is out.
        doubtful: buckets in which it may be stored without our knowing.
    """

    batch: Batch
    payload: Payload
    bucket: Bucket | None = None
    future: Any = None
    doubtful: set[int] = field(default_factory=set)


class Commits:
    """Stores batches of several symbols at the same time."""

    def __init__(self, session: CqlSession, chains: Chains) -> None:
        self._session = session
        self._chains = chains
        self._bucket_bytes = session.settings.bucket_bytes

    def commit(self, batches: Sequence[Batch]) -> list[Outcome]:
        """As `SotStore.commit`: all are sent, then all are waited for."""
        if len({batch.symbol_id for batch in batches}) != len(batches):
            raise ValueError("at most one batch per symbol may be committed at once")
        attempts = [_Attempt(batch, compress(batch.frames)) for batch in batches]
        for attempt in attempts:
            self._send(attempt)
        return [self._outcome(attempt) for attempt in attempts]

    def _send(self, attempt: _Attempt) -> None:
        """Send to the last bucket that is known; looked for only if none is, or it is closed."""
        symbol_id = attempt.batch.symbol_id
        known = self._chains.known.get(symbol_id)
        if known is None or known.closed:
            known = self._chains.writable(symbol_id)
        attempt.bucket, attempt.future = known, None
        if known is not None:
            attempt.future = self._session.begin_conditional(self._statements(attempt, known))

    def _outcome(self, attempt: _Attempt) -> Outcome:
        batch = attempt.batch
        patience = Patience(self._session, f"storing symbol {batch.symbol_id}")
        unexplained = 0
        while True:
            reason = "the conditions of the write do not hold, and nothing shows why"
            try:
                if attempt.future is not None and self._session.applied(attempt.future):
                    return self._stored(attempt)
            except Uncertain as lost:
                reason = lost.reason
                if attempt.bucket is not None:
                    attempt.doubtful.add(attempt.bucket.number)
                patience.pause(reason)
            last = self._chains.writable(batch.symbol_id)
            if last is None:
                raise ValueError(f"symbol {batch.symbol_id} was never claimed")
            if self._is_stored(attempt, last):
                return Outcome(Answer.COMMITTED, last.symbol_head)
            if last.epoch != batch.epoch:
                return Outcome(Answer.FENCED, last.symbol_head)
            if last.head != batch.before:
                return Outcome(Answer.MOVED, last.symbol_head)
            if attempt.bucket == last and not attempt.doubtful:
                unexplained += 1
                if unexplained >= _UNEXPLAINED:
                    self._refuse_row_behind_head(batch, last)
                    patience.pause(reason)
            self._send(attempt)

    def _stored(self, attempt: _Attempt) -> Outcome:
        """The condition held, so the bucket now is what the batch made of it."""
        bucket, batch = attempt.bucket, attempt.batch
        assert bucket is not None
        after = _bucket_after(bucket, attempt, self._bucket_bytes)
        self._chains.known[batch.symbol_id] = after
        return Outcome(Answer.COMMITTED, after.symbol_head)

    def _is_stored(self, attempt: _Attempt, last: Bucket) -> bool:
        """Whether a batch whose answer was lost did happen."""
        batch = attempt.batch
        if not attempt.doubtful or last.head.next_seq < batch.after.next_seq:
            return False
        if last.head == batch.after:
            return True
        key = to_signed(batch.before.next_seq)
        for number in attempt.doubtful:
            rows = self._session.read("stored", to_signed32(batch.symbol_id), number, key)
            if rows and rows[0].digest == batch.after.digest:
                return True
        return False

    def _refuse_row_behind_head(self, batch: Batch, last: Bucket) -> None:
        key = to_signed(batch.before.next_seq)
        symbol_id = batch.symbol_id
        if self._session.read("stored", to_signed32(symbol_id), last.number, key, serial=True):
            raise DamagedLog(
                partition(self._session.settings.keyspace, symbol_id, last.number),
                "a row lies behind the head, so the head was turned back",
                symbol_id=symbol_id,
                seq=batch.before.next_seq,
            )

    def _statements(self, attempt: _Attempt, bucket: Bucket) -> list[Any]:
        batch, payload = attempt.batch, attempt.payload
        before, after = batch.before, batch.after
        updated = _bucket_after(bucket, attempt, self._bucket_bytes)
        key = (to_signed32(batch.symbol_id), bucket.number)
        advance = self._session.bound(
            "advance",
            after.next_seq,
            to_signed(after.hash),
            after.digest,
            updated.size_bytes,
            updated.closed,
            *key,
            batch.epoch,
            before.next_seq,
            to_signed(before.hash),
            before.digest,
        )
        block = self._session.bound(
            "block",
            *key,
            to_signed(before.next_seq),
            batch.count,
            to_signed(before.hash),
            to_signed(after.hash),
            after.digest,
            payload.codec,
            payload.raw_bytes,
            to_signed(payload.checksum),
            payload.stored,
        )
        return [advance, block]


def _bucket_after(bucket: Bucket, attempt: _Attempt, bucket_bytes: int) -> Bucket:
    """The bucket behind the batch; the batch that fills it closes it."""
    size_bytes = bucket.size_bytes + len(attempt.payload.stored)
    return Bucket(
        symbol_id=bucket.symbol_id,
        number=bucket.number,
        epoch=attempt.batch.epoch,
        owner=bucket.owner,
        first_seq=bucket.first_seq,
        start_next=bucket.start_next,
        head=attempt.batch.after,
        size_bytes=size_bytes,
        closed=size_bytes >= bucket_bytes,
    )


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
