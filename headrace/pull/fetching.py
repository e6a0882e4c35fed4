"""One chunk of a product: walk it, store what was answered, say what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from headrace.coverage import IntervalSet
from headrace.exchange.client import ExchangeClient
from headrace.exchange.history import History
from headrace.exchange.pages import Page
from headrace.exchange.planning import Chunk, next_page
from headrace.exchange.walk import Known, Walked, walk
from headrace.faults import kill_point
from headrace.lake import RawLake
from headrace.lake.rows import rows_between
from headrace.pull.progress import RunProgress
from headrace.pull.receipts import ChunkReceipt
from headrace.quota import Lane
from headrace.stopping import StopEvent, Stopped


@dataclass(frozen=True, slots=True)
class Fetching:
    """How the chunks of one product are fetched. `fetched` may be called from many threads.

    Args:
        product: canonical product id.
        client, lake: where from, where to.
        host: who answers, for the parts' footers.
        lane: where its requests wait.
        history: the product's first and newest trade.
        seen: pages that the survey was given, and need not be asked for again.
        stored_before: what the lake answered for when the run began.
        replace: let what is fetched take the place of what is stored.
        progress: raised as pages arrive.
        stop: looked at before each page.
    """

    product: str
    client: ExchangeClient
    lake: RawLake
    host: str
    lane: Lane
    history: History
    seen: tuple[Page, ...]
    stored_before: IntervalSet
    replace: bool
    progress: RunProgress
    stop: StopEvent

    def fetched(self, chunk: Chunk) -> ChunkReceipt:
        """Walk a chunk and store its part; durable when it returns.

        Raises:
            Stopped: before anything was answered.
            ExchangeError, StoreError: as the client and the lake.
        """
        self.stop.check()

        def on_page(page: Page) -> None:
            self.progress.page(self.product, len(page))

        walked = walk(
            self.client,
            self.product,
            chunk.span,
            Known(self.history.first, self.history.newest),
            lane=self.lane,
            stop=self.stop,
            on_page=on_page,
            seen=self.seen,
        )
        kill_point("after-fetch")
        if walked is None:
            raise Stopped
        return self._stored(chunk, walked)

    def _stored(self, chunk: Chunk, walked: Walked) -> ChunkReceipt:
        """Store an answered range: one part, or several blocks if the walk was stopped."""
        lo = walked.lo if walked.lo == chunk.lo else next_page(walked.lo)
        if lo > walked.hi:
            raise Stopped
        stored = [
            self.lake.write(
                self.product,
                begin,
                end,
                rows_between(walked.trades, begin, end),
                source=self.host,
                fetched_at=datetime.now(UTC),
                replace=self.replace,
            )
            for begin, end in self.lake.grid.blocks(lo, walked.hi)
        ]
        return ChunkReceipt(
            span=chunk.span,
            answered=(lo, walked.hi),
            rows=self._new_rows(walked.trades, lo, walked.hi),
            written=any(part.written for part in stored),
            holes=tuple(hole for part in stored for hole in part.footer.long_holes),
            pages=walked.pages,
            error="" if lo == chunk.lo else Stopped().message,
        )

    def _new_rows(self, trades: pa.Table, lo: int, hi: int) -> int:
        """Trades of an answered range that the lake did not hold: of the newest page, some may."""
        return sum(
            rows_between(trades, begin, end).num_rows
            for begin, end in self.stored_before.gaps(lo, hi)
        )
