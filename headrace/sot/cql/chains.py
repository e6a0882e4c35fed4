"""A symbol's buckets: which is the last, how the next one begins, and who may write it.

A bucket is closed by the commit that fills it, in the same conditional step; from then on its epoch
and its head cannot change. So every writer that needs the next one can begin it, with the same
values as any other, and only if it does not exist. A writer whose bucket was closed behind its back
meets a condition that does not hold, and looks again.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID, uuid4

from headrace.sot.chain import genesis
from headrace.sot.cql.session import CqlSession, Patience, Uncertain
from headrace.sot.cql.tables import Bucket, bucket_of, partition
from headrace.sot.encoding import from_signed32, to_signed, to_signed32
from headrace.sot.exceptions import DamagedLog
from headrace.sot.store import Head


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
