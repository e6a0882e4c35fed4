"""What can be wrong with rows of trades: looked at one table at a time, each with the one before.

Prices and sizes are compared as doubles: bounds are orders of magnitude, not values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from headrace.checks.report import Check
from headrace.lake.decimals import canonical_decimal
from headrace.lake.names import MAX_ID

#: No exchange of crypto currencies is older: the day of Bitcoin's first block.
_FIRST_US = int(datetime(2009, 1, 3, tzinfo=UTC).timestamp()) * 1_000_000
#: Of so many of the newest trades the time between two is looked at.
RECENT = 1_000
#: Faults of one kind that are spelled out.
_SHOWN = 3


@dataclass(slots=True)
class Faults:
    """Faults of one kind: how many, the first and the last id, and what the first ones are."""

    count: int = 0
    first_id: int = MAX_ID
    last_id: int = 0
    shown: list[str] = field(default_factory=list)


class RowChecks:
    """Checks of the rows of one product, given in tables by rising id.

    Args:
        now_us: the present, in microseconds since 1970.
        max_back_us: by how much a time may be before that of the trade before it, and after now.
        max_jump: the factor by which a price may differ from the one before; 0 for any.
    """

    def __init__(self, *, now_us: int, max_back_us: int, max_jump: float) -> None:
        self._now_us = now_us
        self._max_back_us = max_back_us
        self._max_jump = max_jump
        self.faults: dict[Check, Faults] = {}
        self.rows = 0
        #: Times of the newest trades that can be, in microseconds, in the order of ids.
        self.recent_us = pa.array([], pa.int64())
        self._ids = pa.array([], pa.int64())
        self._price: float | None = None
        #: Whether the last price looked at had jumped: up (1), down (-1), or not (0).
        self._jumped = 0

    def look(self, table: pa.Table) -> None:
        """Look at a table of raw trades (`RAW_SCHEMA`)."""
        if not table.num_rows:
            return
        ids, times, prices, sizes = (
            table[name].combine_chunks() for name in ("trade_id", "time", "price", "size")
        )
        self.rows += len(ids)
        self._look_at_ids(ids)
        self._look_at_times(ids, times.cast(pa.int64()))
        self._look_at_values(Check.SIZE, ids, sizes)
        good, values = self._look_at_values(Check.PRICE, ids, prices)
        if self._max_jump and len(values):
            self._look_for_jumps(good, values)

    def gap(self) -> None:
        """Rows are left out before the next table: its first price is not compared."""
        self._price = None
        self._jumped = 0

    def add(self, check: Check, lo: int, hi: int, count: int, texts: Iterable[str]) -> None:
        """Count faults of ids in [lo, hi]; of `texts` no more are read than are shown."""
        faults = self.faults.setdefault(check, Faults())
        faults.count += count
        faults.first_id, faults.last_id = min(faults.first_id, lo), max(faults.last_id, hi)
        faults.shown += islice(texts, _SHOWN - len(faults.shown))

    def _look_at_ids(self, ids: pa.Int64Array) -> None:
        """Ids rise strictly within a table. Tables may overlap, which doubles what both hold."""
        steps = pc.subtract(ids[1:], ids[:-1])
        fallen = pc.less(steps, 0)
        self._found(Check.ORDER, ids[1:], fallen, lambda _: "its id is below the one before")
        doubled = len(ids) - len(pc.unique(ids)) if pc.any(pc.less_equal(steps, 0)).as_py() else 0
        if doubled:
            counted = pc.value_counts(ids)
            again = counted.field("values").filter(pc.greater(counted.field("counts"), 1))
            self._doubled(again, doubled, "stands more than once in a part")
        if len(self._ids) and pc.min(ids).as_py() <= pc.max(self._ids).as_py():
            shared = ids.filter(pc.is_in(ids, self._ids))
            self._doubled(shared, len(shared), "is in two parts")
        self._ids = ids

    def _doubled(self, ids: pa.Int64Array, count: int, text: str) -> None:
        if count:
            self._counted(Check.DUPLICATE, ids, count, [text] * _SHOWN)

    def _look_at_times(self, ids: pa.Int64Array, times: pa.Int64Array) -> None:
        if len(self.recent_us):
            before = pa.concat_arrays([self.recent_us[-1:], times[:-1]])
        else:
            before = pa.concat_arrays([times[:1], times[:-1]])
        ahead = pc.greater(times, self._now_us + self._max_back_us)
        back = pc.less(times, pc.subtract(before, self._max_back_us))
        early = pc.and_not(pc.less(times, _FIRST_US), back)

        def describing(text: str) -> Callable[[int], str]:
            return lambda at: text.format(_moment(times[at]), _moment(before[at]))

        self._found(Check.TIME, ids, ahead, describing("{} is in the future"))
        self._found(Check.TIME, ids, back, describing("{} is before {}, of the id before"))
        self._found(Check.TIME, ids, early, describing("{} is before there was any exchange"))
        sane = pc.invert(pc.or_(ahead, pc.or_(back, early)))
        recent = pa.concat_arrays([self.recent_us, times.filter(sane)[-RECENT:]])
        self.recent_us = recent[-RECENT:]

    def _look_at_values(
        self, check: Check, ids: pa.Int64Array, texts: pa.StringArray
    ) -> tuple[pa.Int64Array, pa.DoubleArray]:
        """Ids and values of the rows whose value is a number above zero; the others are faults."""
        values = _as_doubles(texts)
        sane = pc.and_(pc.is_finite(values), pc.greater(values, 0))
        if pc.all(sane).as_py():
            return ids, values
        self._found(check, ids, pc.invert(sane), lambda at: f"{texts[at].as_py()[:80]!r}")
        return ids.filter(sane), values.filter(sane)

    def _look_for_jumps(self, ids: pa.Int64Array, values: pa.DoubleArray) -> None:
        """Prices beyond the factor of the one before, except the way back from one that was."""
        first = values[:1] if self._price is None else pa.array([self._price], pa.float64())
        before = pa.concat_arrays([first, values[:-1]])
        ratios = pc.divide(values, before)
        jumps = pc.or_(pc.greater(ratios, self._max_jump), pc.less(ratios, 1 / self._max_jump))
        found = []
        last_at, last_way = -1, self._jumped
        for at in pc.indices_nonzero(jumps).to_pylist():
            way = 1 if ratios[at].as_py() > 1 else -1
            back = last_at == at - 1 and last_way == -way
            if not back:
                found.append(at)
            last_at, last_way = at, 0 if back else way
        self._price = values[-1].as_py()
        self._jumped = last_way if last_at == len(values) - 1 else 0
        if found:
            texts = (f"{values[at].as_py():g} after {before[at].as_py():g}" for at in found)
            self._counted(Check.JUMP, ids.take(pa.array(found)), len(found), texts)

    def _found(
        self, check: Check, ids: pa.Int64Array, faulty: pa.BooleanArray, text: Callable[[int], str]
    ) -> None:
        if pc.any(faulty).as_py():
            places = pc.indices_nonzero(faulty)
            texts = (text(at) for at in places[:_SHOWN].to_pylist())
            self._counted(check, ids.take(places), len(places), texts)

    def _counted(self, check: Check, ids: pa.Int64Array, count: int, texts: Iterable[str]) -> None:
        extremes = pc.min_max(ids).as_py()
        first = ids[:_SHOWN].to_pylist()
        named = (f"{trade_id}: {text}" for trade_id, text in zip(first, texts, strict=False))
        self.add(check, extremes["min"], extremes["max"], count, named)


def longest_pause_us(times_us: pa.Int64Array) -> int:
    """The longest time between two of these trades, in microseconds; 0 of fewer than two."""
    if len(times_us) < 2:
        return 0
    rising = times_us.take(pc.sort_indices(times_us))
    return int(pc.max(pc.subtract(rising[1:], rising[:-1])).as_py())


def _as_doubles(texts: pa.StringArray) -> pa.DoubleArray:
    """Decimals as doubles; not a number where a text is no decimal."""
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return pa.array([_as_double(text) for text in texts.to_pylist()], pa.float64())


def _as_double(text: str) -> float:
    try:
        return float(canonical_decimal(text))
    except (ValueError, OverflowError):
        return math.nan


def _moment(time_us: pa.Int64Scalar) -> str:
    """A time for people; one that no calendar has as the number that it is."""
    seconds, rest = divmod(time_us.as_py(), 1_000_000)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return f"{time_us.as_py()} us"
