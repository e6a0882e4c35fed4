"""What one symbol has in the store's park, and what goes there and comes back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Final

from headrace.sot.layout import HASH_BYTES, PREV_HASH
from headrace.sot.store import Parked, SotStore

#: Parking is a durable write each time; so many records share one.
_TOGETHER: Final = 500
_TOGETHER_BYTES: Final = 1024 * 1024


class Aside:
    """The parked records of one symbol.

    Args:
        store: where they lie.
        symbol_id: whose they are.
        limit: how many may lie there.

    Attributes:
        least: the lowest sequence parked that may still come next; None if there is none.
        repeated: records put that lay there already, as far as they were counted.
        taken: put into the chain again, and to be let go of once that is durable.
    """

    def __init__(self, store: SotStore, symbol_id: int, limit: int) -> None:
        self._store = store
        self._symbol_id = symbol_id
        self._limit = limit
        self._new: list[Parked] = []
        self._new_bytes = 0
        self._there: set[tuple[int, int]] | None = None
        self.taken: list[Parked] = []
        self.least: int | None = None
        self.count = 0
        self.repeated = 0

    @classmethod
    def loaded(cls, store: SotStore, symbol_id: int, limit: int) -> Aside:
        """With what earlier runs have parked counted in."""
        aside = cls(store, symbol_id, limit)
        for parked in store.parked(symbol_id):
            aside.count += 1
            if aside.least is None:
                aside.least = parked.seq
        return aside

    def put(self, seq: int, body: bytes, reason: str) -> bool:
        """Park a record soon; False if the park is full and does not have it."""
        if self.count >= self._limit and self._there is None:
            self._recount()
        if self._there is not None:
            if (key := (seq, hash(body))) in self._there:
                self.repeated += 1
                return True
            if self.count >= self._limit:
                return False
            self._there.add(key)
        self.count += 1
        if reason == "gap" and (self.least is None or seq < self.least):
            self.least = seq
        self._add(Parked(self._symbol_id, seq, body, reason))
        return True

    def _add(self, record: Parked) -> None:
        self._new.append(record)
        self._new_bytes += len(record.body)
        if len(self._new) >= _TOGETHER or self._new_bytes >= _TOGETHER_BYTES:
            self.flush()

    def _recount(self) -> None:
        """Look before saying that it is full: what came twice lies there once."""
        self.flush()
        self._there = {
            (parked.seq, hash(parked.body)) for parked in self._store.parked(self._symbol_id)
        }
        self.counted(len(self._there))

    def counted(self, records: int) -> None:
        """So many lie there; what was put beyond that was put more than once."""
        self.repeated += self.count - records
        self.count = records

    def flush(self) -> None:
        """Make what was put durable."""
        if self._new:
            self._store.park(self._new)
            self._new.clear()
            self._new_bytes = 0

    def reclassify(self, records: list[Parked], reason: str) -> None:
        """Keep these for another reason than before: as evidence, no longer as candidates.

        They stay parked all the time: the store changes the reason in place.
        """
        for record in records:
            self._add(replace(record, reason=reason))
        self.flush()

    def let_go(self, next_seq: int) -> None:
        """Let go of what was taken, if all of it is stored."""
        if self.taken and all(parked.seq < next_seq for parked in self.taken):
            self._store.unpark(self.taken)
            self.count -= len(self.taken)
            if self._there is not None:
                self._there -= {(parked.seq, hash(parked.body)) for parked in self.taken}
            self.taken.clear()


def best_first(parked: Iterable[Parked]) -> Iterator[Parked]:
    """Parked records by sequence; of several at one, those first that a next one names.

    Which of two came first is not kept. Whose hash is the `prev_hash` of a parked successor has a
    history that goes on.
    """
    groups = (list(group) for _, group in groupby(parked, lambda record: record.seq))
    current = next(groups, None)
    while current is not None:
        following = next(groups, None)
        if len(current) > 1 and following is not None:
            named = {record.body[PREV_HASH] for record in following}
            current.sort(key=lambda record: record.body[:HASH_BYTES] not in named)
        yield from current
        current = following
