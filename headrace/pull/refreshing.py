"""Fetching again what is stored: by the parts' own borders, so that none comes to lie across."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.coverage import IntervalSet, Range
from headrace.exchange.history import History
from headrace.exchange.planning import Chunk, Sizing, plan_chunks, plan_pages, whole_pages
from headrace.lake import RawLake


def refresh_chunks(
    lake: RawLake,
    product: str,
    *,
    asked: Range,
    to_fetch: IntervalSet,
    history: History,
    sizing: Sizing,
) -> Iterator[Chunk]:
    """The parts that share an id with `asked`, one chunk each, then what no part answers for.

    Args:
        asked: the inclusive range to refresh.
        to_fetch: the same in whole pages.
        history: first and newest trade; what lies below the first is no work.
        sizing: how the rest is cut.
    """
    stored = [
        (part.lo, part.hi)
        for part in lake.parts(product).between(*asked)
        if part.hi >= history.first
    ]
    # Beside a part that ends within a page, the rest of the page would be no block.
    rest = whole_pages(to_fetch - IntervalSet.from_ranges(stored), history.newest)
    for lo, hi in stored:
        if not rest.contains(lo, hi):
            yield Chunk(lo, hi, plan_pages(IntervalSet.of((lo, hi))))
    yield from plan_chunks(rest, sizing)
