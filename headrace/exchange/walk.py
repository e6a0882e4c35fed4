"""Walk one chunk: page by page from its upper end down, until every id of it is answered for.

What an answer proves: a page asked with `after=X` holds the newest trades below X, so ids between
its trades, and between its newest trade and X, do not exist. Such ids are the exchange's holes. An
empty page proves that nothing lies below X, which is believed only where no trade is known there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headrace.coverage import Range
from headrace.exchange.client import ExchangeClient
from headrace.exchange.pages import PAGE_LIMIT, Page
from headrace.quota import Lane
from headrace.stopping import StopEvent
from headrace.trades import RAW_SCHEMA


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a product before a chunk is walked: its lowest and its newest trade."""

    first: int
    newest: int

    def below(self, cursor: int) -> int | None:
        """The highest id known to exist below `cursor`, if any."""
        if self.newest < cursor:
            return self.newest
        return self.first if self.first < cursor else None


@dataclass(frozen=True, slots=True)
class Walked:
    """An answered range and its trades (RAW_SCHEMA, ascending, all within the range).

    If the walk ended on its way, `error` says by what, and `lo` is above the lower end that was
    asked for: `hi + 1` if nothing was answered.
    """

    lo: int
    hi: int
    trades: pa.Table
    pages: int
    error: Exception | None = None


def walk(
    client: ExchangeClient,
    product: str,
    span: Range,
    known: Known,
    *,
    lane: Lane = Lane.BACKFILL,
    stop: StopEvent | None = None,
    on_page: Callable[[Page], None] | None = None,
    seen: Sequence[Page] = (),
) -> Walked:
    """Fetch every trade with an id in `span`, both ends included.

    `seen` are pages that this run has been given already: what they show is not asked for again,
    and no answer is taken that denies it.

    Whatever ends the walk (`stop`, an error of the client as of `ExchangeClient.page`, or of this
    machine), what was answered so far is returned with the error, which is not raised. Rows below
    the span that come with the last page are dropped.
    """
    lo, hi = span
    cursor = hi + 1
    batches: list[pa.RecordBatch] = []
    pages = 0
    # Nothing lies below the first trade, which is known: no request needs to find that out.
    bottom = max(lo, known.first)
    error: Exception | None = None
    try:
        while cursor > bottom:
            if stop is not None:
                stop.check()
            page = _shown(seen, cursor, bottom)
            if page is None:
                exists = _exists_below(cursor, known, seen)
                page = client.page(product, cursor, lane=lane, known=exists)
            pages += 1
            if len(page) == 0:
                cursor = lo
                break
            if cursor - page.last_id > PAGE_LIMIT and not _asks_on(page.first_id, bottom, seen):
                # A hole of a page or more, and no next answer that would prove that the server
                # moves.
                client.page(product, page.last_id, limit=1, lane=lane)
                pages += 1
            batches.append(page.trades)
            cursor = page.first_id
            if on_page is not None:
                on_page(page)
    except Exception as ended:  # noqa: BLE001 - what was answered is kept, whatever came next
        error = ended
    answered_lo = lo if cursor <= bottom else cursor
    return Walked(answered_lo, hi, _from(_joined(batches), lo), pages, error)


def _shown(seen: Sequence[Page], cursor: int, bottom: int) -> Page | None:
    """What the exchange would answer below `cursor`, if pages that were seen tell all of it.

    All of it is a full page, or what there is down to `bottom`; for less it is asked.
    """
    for page in seen:
        part = page.below(cursor)
        if part is not None and (len(part) >= PAGE_LIMIT or part.first_id <= bottom):
            return part
    return None


def _exists_below(cursor: int, known: Known, seen: Sequence[Page]) -> int | None:
    """The highest id below `cursor` that is known to exist: no answer may deny it."""
    found = (known.below(cursor), *(page.highest_below(cursor) for page in seen))
    return max((each for each in found if each is not None), default=None)


def _asks_on(cursor: int, bottom: int, seen: Sequence[Page]) -> bool:
    """Whether the walk goes on below `cursor` with a request."""
    return cursor > bottom and _shown(seen, cursor, bottom) is None


def _joined(batches: list[pa.RecordBatch]) -> pa.Table:
    """The pages of a walk, oldest first, as one batch, on which all that follows does better.

    Column by column, and a column's pages are let go once it is joined: a chunk is never in memory
    twice.
    """
    columns = [[batch.column(at) for batch in reversed(batches)] for at in range(len(RAW_SCHEMA))]
    batches.clear()
    joined = []
    for pieces, field in zip(columns, RAW_SCHEMA, strict=True):
        joined.append(pa.concat_arrays(pieces) if pieces else pa.array([], field.type))
        pieces.clear()
    return pa.Table.from_arrays(joined, schema=RAW_SCHEMA)


def _from(trades: pa.Table, lo: int) -> pa.Table:
    """The rows with ids of at least `lo`; the rows are sorted, so they are a tail."""
    ids = trades.column("trade_id")
    below = 0
    while below < len(ids) and ids[below].as_py() < lo:
        below += 1
    return trades.slice(below) if below else trades
