"""Commits of batches, each one conditional step: the head moves and the rows appear, or neither.

A batch whose answer was lost is looked for: its row carries the digest over all that precedes its
end, so finding that digest under its sequence means that exactly this batch is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.sot.cql.chains import Chains
from headrace.sot.cql.session import CqlSession, Patience, Uncertain
from headrace.sot.cql.tables import Bucket, Payload, compress, partition
from headrace.sot.encoding import to_signed, to_signed32
from headrace.sot.exceptions import DamagedLog
from headrace.sot.store import Answer, Batch, Outcome

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
