"""The lake against a model of it, under a store that fails at any call, before or after acting.

The model is a dictionary: which ids were answered for, and which of them exist. Whatever fails,
readers see exactly what was durably written, and one sweep and merge later no rubble is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import get_args

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.coverage import IntervalSet
from headrace.lake import Grid, RawLake, StoredObject
from headrace.lake.exceptions import ObjectMissing, StoreUnavailable
from headrace.lake.faults import Action, Fault, FaultyStore
from tests.lake_samples import FETCHED_AT, SOURCE, trades

PRODUCT = "BTC-USD"
GRID = Grid(cell_pages=1)
SLOT_IDS = 125
SLOTS = 20


class MemoryStore:
    """A store without a disk, for thousands of steps."""

    location = "memory"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def place(self, key: str) -> str:
        return f"memory/{key}"

    def put(self, key: str, content: bytes) -> None:
        self.objects[key] = content

    def put_if_absent(self, key: str, content: bytes) -> bool:
        return self.objects.setdefault(key, content) is content

    def get(self, key: str) -> bytes:
        if key not in self.objects:
            raise ObjectMissing("reading", self.place(key), "nothing there")
        return self.objects[key]

    def tail(self, key: str, size_bytes: int) -> bytes:
        return self.get(key)[-size_bytes:]

    def exists(self, key: str) -> bool:
        return key in self.objects

    def entries(self, prefix: str) -> Iterator[StoredObject]:
        found = [key for key in self.objects if key.rpartition("/")[0] + "/" == prefix]
        return iter([StoredObject(key, len(self.objects[key])) for key in found])

    def folders(self, prefix: str) -> list[str]:
        return []

    def delete(self, key: str) -> None:
        self.objects.pop(key, None)

    def sweep(self, prefix: str) -> list[str]:
        return []

    def check(self) -> None:
        pass


class LakeMachine(RuleBasedStateMachine):
    """Slots of 125 ids are written once; merges, sweeps and failures come in any order."""

    @initialize()
    def begin(self) -> None:
        self.memory = MemoryStore()
        self.store = FaultyStore(self.memory)
        self.raw = RawLake(self.store, "coinbase", GRID)
        self.calm = RawLake(self.memory, "coinbase", GRID)
        self.answered = IntervalSet()

    @rule(
        action=st.sampled_from([a for a in get_args(Action) if a not in ("put", "exists")]),
        stored=st.booleans(),
        times=st.integers(1, 2),
    )
    def trouble_ahead(self, action: Action, stored: bool, times: int) -> None:
        self.store.script(action, Fault(stored=stored, times=times))

    @rule(slot=st.integers(0, SLOTS - 1), length=st.integers(1, 6))
    def write(self, slot: int, length: int) -> None:
        lo, hi = slot * SLOT_IDS + 1, (slot + length) * SLOT_IDS
        hi = min(hi, GRID.cell_of(lo).hi)
        if self.answered & IntervalSet.of((lo, hi)):
            return
        try:
            self.raw.write(PRODUCT, lo, hi, rows_of(lo, hi), source=SOURCE, fetched_at=FETCHED_AT)
        except StoreUnavailable:
            # The answer may be lost and the part there: the lake knows, the caller asks it again.
            if self.calm.coverage(PRODUCT).contains(lo, hi):
                self.answered |= IntervalSet.of((lo, hi))
        else:
            self.answered |= IntervalSet.of((lo, hi))

    @rule()
    def merge_due(self) -> None:
        with suppress(StoreUnavailable):
            self.raw.merge_due(PRODUCT)

    @rule()
    def sweep(self) -> None:
        try:
            receipt = self.raw.sweep(PRODUCT)
        except StoreUnavailable:
            return
        assert receipt.kept == ()

    @rule()
    def recover(self) -> None:
        self.store.heal()
        assert self.raw.sweep(PRODUCT).kept == ()
        self.raw.merge_due(PRODUCT)
        listing = self.raw.parts(PRODUCT)
        assert listing.hidden == listing.overlaps == listing.foreign == ()
        assert self.raw.merge_due(PRODUCT) == []

    @invariant()
    def readers_see_what_was_written(self) -> None:
        listing = self.calm.parts(PRODUCT)
        assert listing.coverage == self.answered
        assert listing.overlaps == ()
        expected = [n for lo, hi in self.answered for n in range(lo, hi + 1) if exists(n)]
        assert self.calm.read(PRODUCT).equals(trades(expected))
        assert self.calm.totals(PRODUCT)[0] == len(expected)


def exists(trade_id: int) -> bool:
    """Every third id, and a long stretch, are holes of the exchange."""
    return trade_id % 3 != 0 and not 700 < trade_id < 1_900


def rows_of(lo: int, hi: int) -> pa.Table:
    return trades([n for n in range(lo, hi + 1) if exists(n)])


TestLake = LakeMachine.TestCase
TestLake.settings = settings(
    max_examples=80,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
