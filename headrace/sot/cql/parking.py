"""Records kept aside, until their predecessor arrives.

Adding and removing are conditional steps, too, on a counter of changes: their order is then the
cluster's own, and does not hang on the clocks of those who ask. Both may be repeated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final

from headrace.sot.cql.session import CqlSession, Patience, Uncertain
from headrace.sot.exceptions import DamagedLog
from headrace.sot.record import U64_MAX
from headrace.sot.store import Parked
from headrace.sot.u64 import from_signed, signed_stretches, to_signed, to_signed32

_STEP_BYTES: Final = 512 * 2**10
_STEP_RECORDS: Final = 100
_PAGE: Final = 50


class Parking:
    """The table of parked records."""

    def __init__(self, session: CqlSession) -> None:
        self._session = session

    def park(self, records: Iterable[Parked]) -> None:
        """Keep these, durable."""
        self._apply(records, self._added)

    def unpark(self, records: Iterable[Parked]) -> None:
        """Remove these."""
        self._apply(records, self._removed)

    def parked(self, symbol_id: int) -> Iterator[Parked]:
        """What is parked for the symbol, by unsigned sequence.

        Raises:
            DamagedLog: a body is not the one that was parked.
        """
        for stretch in signed_stretches(0, U64_MAX):
            key = to_signed32(symbol_id)
            for row in self._session.pages("parked", key, *stretch, page=_PAGE):
                seq = from_signed(row.seq)
                if row.body is None or hashlib.sha256(row.body).digest() != row.digest:
                    raise DamagedLog(
                        f"{self._session.settings.keyspace}.sot_parked",
                        "a parked record is not the one that was parked",
                        symbol_id=symbol_id,
                        seq=seq,
                    )
                yield Parked(symbol_id, seq, row.body, row.reason)

    def _added(self, record: Parked) -> Any:
        key = (to_signed32(record.symbol_id), to_signed(record.seq), _digest(record))
        return self._session.bound("park", *key, record.reason, record.body)

    def _removed(self, record: Parked) -> Any:
        key = (to_signed32(record.symbol_id), to_signed(record.seq), _digest(record))
        return self._session.bound("unpark", *key)

    def _apply(self, records: Iterable[Parked], statement: Any) -> None:
        ordered = sorted(records, key=lambda record: record.symbol_id)
        for symbol_id, group in groupby(ordered, key=lambda record: record.symbol_id):
            for step in _steps(group):
                self._change(symbol_id, [statement(record) for record in step])

    def _change(self, symbol_id: int, statements: list[Any]) -> None:
        """Apply them in one step of the symbol's partition, however often it takes."""
        patience = Patience(self._session, f"parking records of symbol {symbol_id}")
        key = to_signed32(symbol_id)
        while True:
            rows = self._session.read("parked_changes", key, serial=True)
            changes = rows[0].changes if rows else None
            condition = (
                self._session.bound("parked_first", key)
                if changes is None
                else self._session.bound("parked_change", changes + 1, key, changes)
            )
            try:
                if self._session.conditional(condition, *statements):
                    return
                reason = "others change what is parked at the same time"
            except Uncertain as lost:
                reason = lost.reason
            patience.pause(reason)


def _digest(record: Parked) -> bytes:
    return hashlib.sha256(record.body).digest()


def _steps(records: Iterable[Parked]) -> Iterator[list[Parked]]:
    """Records cut so that a step stays small."""
    step: list[Parked] = []
    size_bytes = 0
    for record in records:
        if step and (len(step) >= _STEP_RECORDS or size_bytes + len(record.body) > _STEP_BYTES):
            yield step
            step, size_bytes = [], 0
        step.append(record)
        size_bytes += len(record.body)
    if step:
        yield step
