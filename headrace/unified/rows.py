"""From raw trades to unified ones: pure functions of a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headrace.coverage import IntervalSet
from headrace.lake.decimals import fitting
from headrace.lake.digest import ContentDigest, content_digest, typed_digest
from headrace.trades import RAW_SCHEMA, rows_between
from headrace.unified.schema import (
    PRICE_TYPE,
    QUANTITY_TYPE,
    QUARANTINE_SCHEMA,
    TIME_TYPE,
    UNIFIED_SCHEMA,
)

#: The columns that lie in the files; those of the partition lie in their paths.
ROW_SCHEMA = pa.schema([UNIFIED_SCHEMA.field(at) for at in range(3, len(UNIFIED_SCHEMA))])
QUARANTINE_ROW_SCHEMA = pa.schema(
    [QUARANTINE_SCHEMA.field(at) for at in range(2, len(QUARANTINE_SCHEMA))]
)

#: A day as `date` has four digits for its year.
_FIRST_US, _END_US = (
    pa.scalar(us, pa.int64()).cast(pa.timestamp("us")).cast(TIME_TYPE)
    for us in (-62_135_596_800_000_000, 253_402_300_800_000_000)
)
_TAKERS = {"buy": "sell", "sell": "buy"}


@dataclass(frozen=True, slots=True)
class Unified:
    """What became of some raw trades.

    Attributes:
        rows: those that fit, in `ROW_SCHEMA`.
        misfits: the others, in `QUARANTINE_ROW_SCHEMA`.
    """

    rows: pa.Table
    misfits: pa.Table


def unified(raw: pa.Table) -> Unified:
    """Raw trades (`RAW_SCHEMA`) in typed columns, each exact or a misfit, in their order."""
    raw = raw.combine_chunks()
    columns = [_chunk(raw, name) for name in raw.column_names]
    ids, times, prices, sizes, sides = columns
    price, bad_prices = fitting(prices, PRICE_TYPE)
    quantity, bad_sizes = fitting(sizes, QUANTITY_TYPE)
    reasons: dict[int, str] = {row: f"size: {why}" for row, why in bad_sizes.items()}
    reasons |= {row: f"price: {why}" for row, why in bad_prices.items()}
    reasons |= dict.fromkeys(_beyond_years(times), "time: not within the years 1 to 9999")
    good = None
    if reasons:
        bad = pa.array(sorted(reasons), pa.int64())
        good = pc.invert(pc.is_in(pa.array(range(raw.num_rows), pa.int64()), bad))
        misfits = raw.take(bad).append_column(
            QUARANTINE_ROW_SCHEMA.field("reason"),
            pa.array([reasons[row] for row in bad.to_pylist()], pa.string()),
        )
    else:
        misfits = QUARANTINE_ROW_SCHEMA.empty_table()
    if good is not None:
        ids, times, sides, price, quantity = (
            column.filter(good) for column in (ids, times, sides, price, quantity)
        )
    rows = pa.table(
        [ids, sides, _takers(sides), price, quantity, times, times.cast(pa.date32())],
        schema=ROW_SCHEMA,
    )
    return Unified(rows, misfits)


def digest_of(rows: pa.Table) -> ContentDigest:
    """The content digest of rows of the table, or of the quarantine."""
    if "reason" in rows.column_names:
        return content_digest(rows.select(RAW_SCHEMA.names))
    return typed_digest(rows)


def rows_within(table: pa.Table, ids: IntervalSet) -> pa.Table:
    """The rows of a sorted table with these ids."""
    pieces = [rows_between(table, lo, hi) for lo, hi in ids]
    return pa.concat_tables(pieces) if pieces else table.slice(0, 0)


def by_month(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each month (UTC) that occurs, months rising, each in the order given."""
    if not rows.num_rows:
        return
    days = rows["date"]
    extremes = pc.min_max(days)
    first, last = extremes["min"].as_py(), extremes["max"].as_py()
    if (first.year, first.month) == (last.year, last.month):
        yield f"{first.year:04d}-{first.month:02d}", rows
        return
    months = pc.add(pc.multiply(pc.year(days), 12), pc.month(days))
    for month in sorted(pc.unique(months).to_pylist()):
        year, before = divmod(month - 1, 12)
        yield f"{year:04d}-{before + 1:02d}", rows.filter(pc.equal(months, month))


def _chunk(table: pa.Table, name: str) -> pa.Array:
    column = table[name]
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _beyond_years(times: pa.TimestampArray) -> list[int]:
    extremes = pc.min_max(times.cast(pa.int64()))
    first, last = extremes["min"].as_py(), extremes["max"].as_py()
    if first is None or (first >= _FIRST_US.value and last < _END_US.value):
        return []
    beyond = pc.or_(pc.less(times, _FIRST_US), pc.greater_equal(times, _END_US))
    rows: list[int] = pc.indices_nonzero(beyond).to_pylist()
    return rows


def _takers(sides: pa.StringArray) -> pa.StringArray:
    """The other side than the maker's, which is the side that Coinbase sends."""
    codes = sides.dictionary_encode()
    takers = [_TAKERS.get(side.lower()) for side in codes.dictionary.to_pylist()]
    return pa.array(takers, pa.string()).take(codes.indices)
