"""One chunk of a product: walk it, store what was answered, say what became of it.

However a walk ends, its pages are stored. A page that fails by itself is left out, and
the walk goes on below it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeGuard

import pyarrow as pa

from headrace.coverage import IntervalSet, Range
from headrace.exchange.pages import Page
from headrace.exchange.planning import Chunk, next_page, page_begin
from headrace.exchange.proof import Known
from headrace.exchange.source import Source
from headrace.exchange.walk import Walked, walk
from headrace.kill_points import kill_point
from headrace.lake import Part, PartReceipt, RawLake
from headrace.pull.memory_budget import MemoryBudget, Reservation, chunk_bytes
from headrace.pull.report import ChunkReceipt
from headrace.quota import Lane
from headrace.run.progress import RunProgress
from headrace.stopping import StopEvent
from headrace.trades import rows_between
from headrace.wire.exceptions import RequestError, RequestRefused, RetriesExhausted


@dataclass(frozen=True, slots=True)
class Fetching:
    """How the chunks of one product are fetched. `fetch` may be called from many threads.

    Args:
        product: canonical product id.
        client, lake: where from, where to.
        host: who answers, for the parts' footers.
        lane: where its requests wait.
        known: the product's first and newest trade, and what this run was shown.
        stored_before: what the lake answered for when the run began.
        replace: let what is fetched take the place of what is stored.
        progress: raised as pages arrive.
        memory: where a chunk reserves what it holds.
        page_bytes: what a page of the product is expected to take.
        stop: looked at before each page.
        on_page_end: called with None after each page, and with the error of each that is left out.
    """

    product: str
    client: Source
    lake: RawLake
    host: str
    lane: Lane
    known: Known
    stored_before: IntervalSet
    replace: bool
    progress: RunProgress
    memory: MemoryBudget
    page_bytes: int
    stop: StopEvent
    on_page_end: Callable[[RequestError | None], None]

    def fetch(self, chunk: Chunk) -> tuple[ChunkReceipt, Exception | None]:
        """Walk a chunk and store what is answered; durable when it returns.

        Returns:
            What is stored, and the first thing that failed: for a page that was left out, or for
            the rest of the chunk.
        """
        answered: list[Range] = []
        parts: list[PartReceipt] = []
        rows = pages = 0
        failed: Exception | None = None
        hi = chunk.hi
        expected = chunk_bytes(chunk.pages * self.page_bytes, self.page_bytes)
        try:
            with self.memory.reserved(expected, self.stop) as reservation:
                while hi >= chunk.lo:
                    walked = self._walk(chunk.lo, hi, reservation)
                    error, end = walked.error, walked.lo
                    pages += walked.pages
                    failed = failed or error
                    lo = end if end == chunk.lo else next_page(end)
                    if lo <= hi:
                        parts += self._store(chunk, lo, walked)
                        answered.append((lo, hi))
                        rows += self._new_rows(walked.trades, lo, hi)
                    # The next walk begins with empty hands.
                    del walked
                    if error is None:
                        hi = lo - 1
                        continue
                    if not _is_of_one_page(error):
                        break
                    self.on_page_end(error)
                    hi = page_begin(end - 1) - 1
        except Exception as error:  # noqa: BLE001 - what is stored by now is counted all the same
            failed = error
        receipt = ChunkReceipt(
            span=chunk.span,
            answered=tuple(answered),
            rows=rows,
            written=any(part.written for part in parts),
            holes=tuple(hole for part in parts for hole in part.footer.long_holes),
            pages=pages,
            error="" if failed is None else str(failed),
        )
        return receipt, failed

    def _walk(self, lo: int, hi: int, reservation: Reservation) -> Walked:
        def room(rows_bytes: int, answered_lo: int) -> bool:
            # Whole pages of the grid can be stored, and less would have to be fetched again.
            return next_page(answered_lo) > hi or reservation.covers(
                chunk_bytes(rows_bytes + self.page_bytes, self.page_bytes)
            )

        def on_page(page: Page) -> None:
            self.progress.add(self.product, done=1, rows=len(page))
            self.on_page_end(None)

        walked = walk(
            self.client,
            self.product,
            (lo, hi),
            self.known,
            lane=self.lane,
            stop=self.stop,
            on_page=on_page,
            room=room,
        )
        kill_point("after-fetch")
        return walked

    def _store(self, chunk: Chunk, lo: int, walked: Walked) -> list[PartReceipt]:
        """Store what was answered from `lo` on: one part, or several blocks of a shorter range."""
        hi = walked.hi
        if self.replace and (lo, hi) != chunk.span:
            for part in self.lake.parts(self.product).between(lo, hi):
                if part.lo <= lo and hi <= part.hi:
                    return [self._store_within(part, lo, walked)]
        return [
            self.lake.write(
                self.product,
                begin,
                end,
                rows_between(walked.trades, begin, end),
                source=self.host,
                fetched_at=datetime.now(UTC),
                replace=self.replace,
                answers=walked.answers,
            )
            for begin, end in self.lake.grid.blocks(lo, hi)
        ]

    def _store_within(self, part: Part, lo: int, walked: Walked) -> PartReceipt:
        """Replace some rows of a stored part. A part beside it would be swept as one of its own."""
        stored, footer = self.lake.read_part(part)
        pieces = [
            rows_between(stored, part.lo, lo - 1),
            rows_between(walked.trades, lo, walked.hi),
            rows_between(stored, walked.hi + 1, part.hi),
        ]
        return self.lake.write(
            self.product,
            part.lo,
            part.hi,
            pa.concat_tables(pieces),
            source={*footer.sources, self.host},
            fetched_at=footer.fetched_at,
            replace=True,
            holes_proven=footer.holes_proven,
            answers=(*footer.answers, *walked.answers),
        )

    def _new_rows(self, trades: pa.Table, lo: int, hi: int) -> int:
        """Trades of an answered range that the lake did not hold: of the newest page, some may."""
        return sum(
            rows_between(trades, begin, end).num_rows
            for begin, end in self.stored_before.gaps(lo, hi)
        )


def _is_of_one_page(error: Exception) -> TypeGuard[RequestError]:
    """Whether another page may well be answered: the exchange took this request and failed it."""
    return isinstance(error, RetriesExhausted | RequestRefused) and not error.refuses_us
