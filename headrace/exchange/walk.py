"""Walk one chunk: page by page from its upper end down, until every id of it is answered for.

What each answer proves, and when it is asked for again, is decided in `headrace.exchange.proof`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from headrace.coverage import Range
from headrace.exchange.exceptions import Contradiction
from headrace.exchange.pages import Page
from headrace.exchange.proof import Known, unmet
from headrace.exchange.source import Source
from headrace.lake.answer_evidence import Answer
from headrace.quota import Lane
from headrace.stopping import StopEvent
from headrace.trades import joined

#: So many pages are joined as they come. A page's buffers are small, and leave holes between what
#: the C library keeps in use when they are freed; those of so many pages it returns to the kernel.
_PAGES_JOINED = 64


@dataclass(frozen=True, slots=True)
class Walked:
    """An answered range and its trades (RAW_SCHEMA, ascending, all within the range).

    If the walk ended on its way, `lo` is above the lower end that was asked for: `hi + 1` if
    nothing was answered. `error` says by what it ended; None if there was no room for more pages.
    `answers` are those that show holes of a page or more, some perhaps beside the range.
    """

    lo: int
    hi: int
    trades: pa.Table
    pages: int
    error: Exception | None = None
    answers: tuple[Answer, ...] = ()


def walk(
    client: Source,
    product: str,
    span: Range,
    known: Known,
    *,
    lane: Lane = Lane.BACKFILL,
    stop: StopEvent | None = None,
    on_page: Callable[[Page], None] | None = None,
    room: Callable[[int, int], bool] = lambda _rows_bytes, _lo: True,
) -> Walked:
    """Fetch every trade with an id in `span`, both ends included.

    Before each page but the first, `room` is asked with the bytes of the rows so far and the lowest
    id that is answered for. If it says no, the walk ends there, without an error.

    However the walk ends (`stop`, an error of the client as of `Source.page`, or of this
    machine), what was answered so far is returned with the error, which is not raised. Where that
    is a contradiction, the page above may be the wrong one, and is not kept. Rows below the span
    that come with the last page are dropped.
    """
    lo, hi = span
    cursor = hi + 1
    batches: list[pa.RecordBatch] = []
    answers: list[Answer] = []
    pages = rows_bytes = loose = shown = 0
    last: Page | None = None
    above = cursor
    # Nothing lies below the first trade, which is known: no request needs to find that out.
    bottom = max(lo, known.first)
    error: Exception | None = None
    try:
        while (cursor := _skip(known, cursor, answers)) > bottom:
            if stop is not None:
                stop.check()
            if batches and not room(rows_bytes, cursor):
                break
            page, requests, before = known.shown(cursor, bottom), 1, len(answers)
            if page is None:
                page, requests = _find_page(client, product, cursor, known, last, lane, answers)
            pages += requests
            batches.append(page.trades)
            rows_bytes += page.trades.nbytes
            loose += 1
            if loose > _PAGES_JOINED:
                # All but the last, which may turn out to be wrong.
                batches[-loose:-1] = joined(batches[-2 : -loose - 1 : -1]).to_batches()
                loose = 1
            above, cursor, last, shown = cursor, page.first_id, page, before
            if on_page is not None:
                on_page(page)
    except Exception as ended:  # noqa: BLE001 - what was answered is kept, whatever came next
        error = ended
        if batches and Contradiction in (type(ended), type(ended.__cause__)):
            batches.pop()
            del answers[shown:]
            cursor = above
    answered_lo = lo if cursor <= bottom else cursor
    if answered_lo < known.first:
        answers += known.begins
    batches.reverse()
    return Walked(answered_lo, hi, _from(joined(batches), lo), pages, error, tuple(answers))


def _skip(known: Known, cursor: int, answers: list[Answer]) -> int:
    """Down to which id nothing is below `cursor`, by what other walks were shown."""
    if hole := known.hole_below(cursor):
        answers.append(hole)
        return hole.between[0] + 1
    return cursor


def _find_page(
    client: Source,
    product: str,
    cursor: int,
    known: Known,
    last: Page | None,
    lane: Lane,
    answers: list[Answer],
) -> tuple[Page, int]:
    """The page below `cursor`, from an answer that meets what lies above; and the requests.

    An answer that begins lower may be cut at the front, or lie below a hole. Then one is looked for
    that shows a row on either side: between `low`, below which no row from `cursor` on was shown,
    and `high`, the lowest row that was.
    """
    follows = last is not None and last.first_id == cursor
    high = cursor if follows else known.above(cursor)
    shown = () if last is None else (last,)
    # The oldest row above is shown again if ids are missing there: then it costs no second request.
    ahead = known.ahead() if not follows else int(last is not None and not last.dense)
    low, at, requests, too_high = cursor, cursor + ahead, 0, False
    while True:
        at = at if high is None else min(at, high + 1)
        page = client.page(
            product, at, lane=lane, check=partial(known.check, shown=shown, exists=high)
        )
        requests += 1
        answers += known.learn(page)
        if page.last_id < cursor - 1:
            low = at
        elif page.first_id < cursor:
            return page.part_below(cursor), requests
        else:
            high, too_high = page.first_id, True
        if high is None:
            raise unmet(page, cursor)
        if high < low:
            low = cursor  # An answer without rows from there on was wrong.
        if high - low < page.limit - 1:
            at = high + 1
        elif too_high:
            at = (low + high) // 2 + 1
        else:
            at = low + max(page.limit // 2, 4 * (low - cursor))


def _from(trades: pa.Table, lo: int) -> pa.Table:
    """The rows with ids of at least `lo`; the rows are sorted, so they are a tail."""
    ids = trades.column("trade_id")
    below = 0
    while below < len(ids) and ids[below].as_py() < lo:
        below += 1
    return trades.slice(below) if below else trades
