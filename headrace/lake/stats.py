"""What the lake holds of a product, from names and footers: its ends, its origin, its sums.

Every question is answered from one listing, which is taken again if a merge takes parts away
meanwhile. Rows are read only where two parts overlap or a range cuts one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import pyarrow.parquet as pq

from headrace.coverage import IntervalSet
from headrace.lake.encoding import PartFooter
from headrace.lake.exceptions import ObjectMissing
from headrace.lake.names import MAX_ID
from headrace.lake.parts import Part, PartListing
from headrace.trades import rows_between

if TYPE_CHECKING:
    from headrace.lake.raw import RawLake

T = TypeVar("T")

#: How often a listing is repeated because another run merges; a merge takes far longer.
_LOOKS = 5


@dataclass(frozen=True, slots=True)
class LakeStats:
    """What the lake holds of a product at one moment: all of it from the same listing.

    Args:
        covered: ids answered for.
        rows: trades stored within them.
        holes: ids proven absent, a page or more at once.
    """

    covered: IntervalSet
    rows: int
    holes: IntervalSet


@dataclass(frozen=True, slots=True)
class NewestTrade:
    """The newest trade in the lake: its id, and the latest time in its part."""

    trade_id: int
    time: datetime


def newest(raw: RawLake, product: str) -> NewestTrade | None:
    """The newest trade of `product`, from statistics: one listing and usually one footer."""

    def look(listing: PartListing) -> NewestTrade | None:
        for part in reversed(listing.parts):
            footer, metadata = raw.described(part)
            if footer.rows:
                return _newest(metadata)
        return None

    return _settled(raw, product, look)


def first_id(raw: RawLake, product: str) -> int | None:
    """The id of the oldest trade of `product` in the lake, from statistics as `newest`."""
    return _settled(raw, product, lambda listing: _first_of(raw, listing))


def proven_first(raw: RawLake, product: str) -> int | None:
    """The product's first trade, None unless the lake answers for every id below it.

    The oldest trade stored need not be the first: chunks become durable in any order.
    """

    def look(listing: PartListing) -> int | None:
        first = _first_of(raw, listing)
        return first if first and listing.coverage.contains(1, first) else None

    return _settled(raw, product, look)


def newest_sources(raw: RawLake, product: str) -> tuple[str, ...]:
    """The hosts that answered for the newest part; none if there is no part."""

    def look(listing: PartListing) -> tuple[str, ...]:
        return raw.footer(listing.parts[-1]).sources if listing.parts else ()

    return _settled(raw, product, look)


def totals(raw: RawLake, product: str, lo: int = 1, hi: int = MAX_ID) -> tuple[int, IntervalSet]:
    """How many trades of [lo, hi] are stored, and the holes of a page or more in it.

    From footers; rows are read only of parts that cross `lo` or `hi`, or overlap another.

    Raises:
        PartUnreadable, ObjectMissing: if a part in the range cannot be read.
    """
    return _settled(raw, product, lambda listing: _totals(raw, listing.between(lo, hi), lo, hi))


def lake_stats(raw: RawLake, product: str) -> LakeStats:
    """What is covered and what is in it, of one moment, although others store meanwhile.

    Raises:
        PartUnreadable, ObjectMissing: if a part cannot be read.
    """

    def look(listing: PartListing) -> LakeStats:
        rows, holes = _totals(raw, listing.parts, 1, MAX_ID)
        return LakeStats(listing.coverage, rows, holes)

    return _settled(raw, product, look)


def _settled(raw: RawLake, product: str, look: Callable[[PartListing], T]) -> T:
    """What `look` sees in the listing, looked at again if a part was merged away meanwhile.

    Raises:
        ObjectMissing: if a part is gone and still listed, or after several merges in a row.
    """
    for _ in range(_LOOKS - 1):
        listing = raw.parts(product)
        try:
            return look(listing)
        except ObjectMissing:
            if raw.parts(product).parts == listing.parts:
                raise
    return look(raw.parts(product))


def _totals(raw: RawLake, parts: Sequence[Part], lo: int, hi: int) -> tuple[int, IntervalSet]:
    rows = 0
    long_holes: list[tuple[int, int]] = []
    counted_to = lo - 1
    for part, footer in raw.footers(parts):
        if not isinstance(footer, PartFooter):
            raise footer
        if part.lo <= counted_to or part.hi > hi:
            table, _ = raw.read_part(part)
            rows += rows_between(table, counted_to + 1, hi).num_rows
        else:
            rows += footer.rows
        long_holes += footer.long_holes
        counted_to = part.hi
    holes = IntervalSet.from_ranges(long_holes)
    return rows, holes & IntervalSet.of((lo, hi))


def _first_of(raw: RawLake, listing: PartListing) -> int | None:
    for part in listing.parts:
        footer, metadata = raw.described(part)
        if footer.rows:
            oldest: int = metadata.row_group(0).column(0).statistics.min
            return oldest
    return None


def _newest(metadata: pq.FileMetaData) -> NewestTrade:
    group = metadata.row_group(metadata.num_row_groups - 1)
    ids, times = (group.column(column).statistics for column in (0, 1))
    return NewestTrade(ids.max, times.max.astimezone(UTC))
