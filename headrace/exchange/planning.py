"""Cut what is missing into chunks: pure arithmetic on the id grid.

A chunk is a block of the grid (`headrace.lake.grid`), walked by one task and durable when it is
complete. Blocks of all sizes are nested in each other or apart, never half over each other, so two
runs that cut the same ids differently still leave no parts that overlap (docs/adr/0003). A chunk's
size meets five aims: bounded memory (few pages in flight), bounded task runs (Prefect records
some tens a second at best), little to repeat after a kill (a chunk takes some 20 s, up to two
minutes in a run of hours), whole cells where all that allows it (no merging later), and no idle
pool at the end (pieces shrink as the work runs out, as in guided self-scheduling).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.coverage import IntervalSet, Range
from headrace.lake.grid import PAGE_IDS, Grid

#: Pages that all chunks in flight may hold together, unless their size is known.
PAGES_IN_MEMORY = 560

#: Task runs a second that a run may cause in steady state; Prefect on SQLite records 28 to 60.
TASK_RUNS_PER_S = 5.0

#: How long a chunk may take, in seconds: in a short run, and in one of hours.
SHORT_CHUNK_S, LONG_CHUNK_S = 20.0, 120.0

#: A run is made of this many chunk times, as far as the two limits above allow.
CHUNK_TIMES_PER_RUN = 100

#: In the last stretch a piece may be this much smaller than in steady state.
TAIL_DIVISOR = 8

#: Pages a second assumed where no quota limits them: at best, and of a process on a busy machine.
UNLIMITED_PAGES_PER_S, BUSY_PAGES_PER_S = 600.0, 120.0


@dataclass(frozen=True, slots=True)
class Chunk:
    """An inclusive range of ids within one cell, and the number of grid pages it touches."""

    lo: int
    hi: int
    pages: int

    @property
    def span(self) -> Range:
        """(lo, hi), both inclusive."""
        return self.lo, self.hi


@dataclass(frozen=True, slots=True)
class Sizing:
    """What the size of chunks depends on.

    Args:
        cell_pages: pages of a cell; no chunk crosses a cell's border.
        in_flight: chunks walked at once by the whole run.
        pool: chunks walked at once for this product.
        pages_per_s: what the quota allows, None if nothing limits it.
        latency_s: seconds of one answer, None if they are not known: the mean, or the least where
            nothing limits the rate, since the mean holds waits of this process then.
        pages_in_memory: pages that all chunks in flight may hold together.
        pages_per_chunk: fixed by the user; 0 lets the plan decide.
    """

    cell_pages: int
    in_flight: int = 15
    pool: int = 5
    pages_per_s: float | None = None
    latency_s: float | None = None
    pages_in_memory: int = PAGES_IN_MEMORY
    pages_per_chunk: int = 0

    @property
    def most(self) -> int:
        """The most pages that a chunk may have: its cell's, as far as memory allows."""
        if self.pages_per_chunk:
            return min(self.pages_per_chunk, self.cell_pages)
        return max(1, min(self.cell_pages, self.pages_in_memory // self._of_use(self.in_flight)))

    @property
    def smallest(self) -> int:
        """The fewest pages worth a task run of its own, in steady state."""
        if self.pages_per_chunk:
            return self.most
        return max(1, min(self.most, math.ceil(self._rate / TASK_RUNS_PER_S)))

    def largest(self, pages: int) -> int:
        """The most pages that a chunk should have in a job of so many pages."""
        if self.pages_per_chunk:
            return self.most
        job_s = pages / self._rate
        chunk_s = min(LONG_CHUNK_S, max(SHORT_CHUNK_S, job_s / CHUNK_TIMES_PER_RUN))
        # In a pool that waits for permits, a page takes as long as the permits of the whole pool.
        page_s = max(self.latency_s or 0.0, self._of_use(self.in_flight) / self._rate)
        return max(self.smallest, min(self.most, int(chunk_s / page_s)))

    def tail(self, pages: int) -> int:
        """How many of so many pages are the last stretch, where pieces shrink.

        Without a quota a page takes milliseconds, so an idle place costs less than a cell that has
        to be merged from pieces: then whole cells go out to the end, if there are enough of them.
        """
        if self.pages_per_s is None and pages >= self._of_use(self.pool) * self.most:
            return 0
        return 2 * self.pool * self.smallest

    def _of_use(self, places: int) -> int:
        """How many of so many chunks walked at once make the run faster.

        With a quota, all of them. Without one, as many as answers take to come: they keep this
        process busy, and further ones only hold memory.
        """
        if self.pages_per_s is not None or self.latency_s is None:
            return places
        return max(1, min(places, math.ceil(self.latency_s * BUSY_PAGES_PER_S)))

    @property
    def _rate(self) -> float:
        return self.pages_per_s or UNLIMITED_PAGES_PER_S


def page_count(lo: int, hi: int) -> int:
    """How many pages of the grid the inclusive range touches; what walking it costs if dense."""
    return (hi - 1) // PAGE_IDS - (lo - 1) // PAGE_IDS + 1


def page_begin(trade_id: int) -> int:
    """The first id of the page that holds `trade_id`."""
    return (trade_id - 1) // PAGE_IDS * PAGE_IDS + 1


def next_page(trade_id: int) -> int:
    """The first id of a page at or above `trade_id`."""
    return -(-(trade_id - 1) // PAGE_IDS) * PAGE_IDS + 1


def whole_pages(missing: IntervalSet, newest: int) -> IntervalSet:
    """Missing ids widened to whole pages of the grid, as far as there are trades.

    It costs no request, since a page is asked for as a whole anyway. The page of the newest trade
    is fetched again from its beginning until it is full.
    """
    return IntervalSet.from_ranges(
        (page_begin(lo), min(((hi - 1) // PAGE_IDS + 1) * PAGE_IDS, max(hi, newest)))
        for lo, hi in missing
    )


def plan_pages(missing: IntervalSet) -> int:
    """Pages of all ranges together."""
    return sum(page_count(lo, hi) for lo, hi in missing)


def plan_chunks(missing: IntervalSet, sizing: Sizing) -> Iterator[Chunk]:
    """The missing ids as chunks, oldest first, each within one cell, smaller ones last.

    Made one at a time, so that a history of any length costs no memory. The chunks cover `missing`
    exactly, and every border between two of them lies on the page grid, where it costs no request.
    The pieces never overlap those of another plan by half if `missing` was widened by
    `whole_pages`.
    """
    remaining = plan_pages(missing)
    largest, tail = sizing.largest(remaining), sizing.tail(remaining)
    grid = Grid(sizing.cell_pages)
    for lo, hi in missing:
        start = lo
        while start <= hi:
            # Guided self-scheduling: a fair share of half of what remains, within the bounds.
            fair = math.ceil(remaining / (2 * sizing.pool))
            floor = sizing.smallest if remaining > tail else sizing.smallest // TAIL_DIVISOR
            pages = max(1, floor, min(fair, largest)) if tail else largest
            end = grid.block_end(start, hi, pages)
            chunk = Chunk(start, end, page_count(start, end))
            yield chunk
            remaining -= chunk.pages
            start = chunk.hi + 1
