"""The lake against a model of it, under a store that fails at any call, before or after acting.

The model is a dictionary: which ids were answered for, and which of them exist. Whatever fails,
readers see exactly what was durably written, and one sweep and merge later no rubble is left.
"""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.coverage import IntervalSet
from headrace.lake import Grid, RawLake
from headrace.lake.exceptions import StoreUnavailable
from headrace.lake.failing_store import Action, Fault, FaultyStore
from headrace.trades import rows_between
from tests.lake_samples import FETCHED_AT, SOURCE, trades
from tests.support.stores import MemoryStore

PRODUCT = "BTC-USD"
GRID = Grid(cell_pages=1)
SLOTS_PER_CELL = 4
SLOT_IDS = GRID.cell_ids // SLOTS_PER_CELL
CELLS = 5
#: Which call fails, how often, and whether it takes effect all the same.
Trouble = tuple[Action, int, bool]
ACTIONS: list[Action] = ["put_if_absent", "get", "tail", "entries", "delete"]
TROUBLE = st.tuples(st.sampled_from(ACTIONS), st.integers(1, 2), st.booleans())
MAYBE = st.none() | TROUBLE


class LakeMachine(RuleBasedStateMachine):
    """Quarters of cells are written once; merges, sweeps and failures come in any order."""

    @initialize()
    def begin(self) -> None:
        self.memory = MemoryStore()
        self.store = FaultyStore(self.memory)
        self.raw = RawLake(self.store, "coinbase", GRID)
        self.calm = RawLake(self.memory, "coinbase", GRID)
        self.answered = IntervalSet()

    @rule(cell=st.integers(0, CELLS - 1), count=st.sampled_from([2, 4, 4]), trouble=MAYBE)
    def write(self, cell: int, count: int, trouble: Trouble | None) -> None:
        self.meet(trouble)
        slots = [GRID.cell(cell).lo + SLOT_IDS * n for n in range(SLOTS_PER_CELL)]
        missing = [lo for lo in slots if not self.answered.contains(lo)]
        for lo in missing[:count]:
            self.write_slot(lo, lo + SLOT_IDS - 1)

    def meet(self, trouble: Trouble | None) -> None:
        """What the calls from here on run into."""
        self.store.heal()
        if trouble is not None:
            action, times, stored = trouble
            self.store.script(action, Fault(times=times, stored=stored))

    def write_slot(self, lo: int, hi: int) -> None:
        try:
            self.raw.write(PRODUCT, lo, hi, rows_of(lo, hi), source=SOURCE, fetched_at=FETCHED_AT)
        except StoreUnavailable:
            # The answer may be lost and the part there: the lake knows, the caller asks it again.
            if not self.calm.coverage(PRODUCT).contains(lo, hi):
                return
        self.answered |= IntervalSet.of((lo, hi))

    @rule(trouble=TROUBLE)
    def merge_due(self, trouble: Trouble) -> None:
        self.meet(trouble)
        with suppress(StoreUnavailable):
            self.raw.merge_due(PRODUCT)

    @rule(trouble=TROUBLE)
    def sweep(self, trouble: Trouble) -> None:
        self.meet(trouble)
        with suppress(StoreUnavailable):
            assert self.raw.sweep(PRODUCT).kept == ()

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
        expected = pa.concat_tables([trades([]), *(rows_of(lo, hi) for lo, hi in self.answered)])
        assert self.calm.read(PRODUCT).equals(expected)
        assert self.calm.totals(PRODUCT)[0] == expected.num_rows


def exists(trade_id: int) -> bool:
    """Every third id, and a long stretch, are holes of the exchange."""
    return trade_id % 3 != 0 and not 700 < trade_id < 1_800


HISTORY = trades([n for n in range(1, CELLS * GRID.cell_ids + 1) if exists(n)])


def rows_of(lo: int, hi: int) -> pa.Table:
    """What the exchange has in [lo, hi]."""
    return rows_between(HISTORY, lo, hi)


TestLake = LakeMachine.TestCase
TestLake.settings = settings(
    max_examples=30,
    stateful_step_count=20,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
