"""Where a product's history begins and ends, and which id a time means: proven by asking."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from headrace.exchange.client import ExchangeClient
from headrace.exchange.exceptions import RetriesExhausted, ValueRefused
from headrace.exchange.pages import PAGE_LIMIT, Outline, Page
from headrace.quota import Lane

#: What one look at a page shows: all of it, or its ids.
Sight = Page | Outline


@dataclass(frozen=True, slots=True)
class History:
    """The span of a product's trades as far as it was asked for; ids, both existing."""

    first: int
    newest: int


def newest_id(client: ExchangeClient, product: str, *, lane: Lane = Lane.BACKFILL) -> int | None:
    """The newest trade's id as the exchange shows it now, or None if it shows no trade at all.

    The answer may be some seconds old (it comes from a cache): it is a lower bound.
    """
    page = client.page(product, None, limit=1, lane=lane)
    return page.last_id if len(page) else None


def newest_page(
    client: ExchangeClient, product: str, *, lane: Lane = Lane.BACKFILL, known: int | None = None
) -> Sight:
    """The same as a whole page: the trades are wanted anyway, and cost no second request then."""
    return _sight(client, product, None, lane, known=known)


def both_ends(
    client: ExchangeClient, product: str, *, lane: Lane = Lane.BACKFILL
) -> tuple[Sight, Sight]:
    """The newest page, and that of the lowest ids, asked for at the same time.

    Nothing can be planned before both are known, so one after the other would leave the quota
    unused for the length of a second answer. No trade is believed only if both say so.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="survey") as pool:
        asked = pool.submit(_sight, client, product, PAGE_LIMIT + 1, lane)
        newest = newest_page(client, product, lane=lane)
        lowest = asked.result()
    if not len(newest) and len(lowest):
        # Either the first trades came in between, or the newest page is an old one of a cache.
        newest = newest_page(client, product, lane=lane, known=lowest.last_id)
    return newest, lowest


def _sight(
    client: ExchangeClient, product: str, after: int | None, lane: Lane, known: int | None = None
) -> Sight:
    """A page, or where it holds what cannot be kept, its ids: one bad row must not hide the rest.

    Whoever walks there finds the row again, and names it.
    """
    try:
        return client.page(product, after, lane=lane, known=known)
    except RetriesExhausted as given_up:
        if not isinstance(given_up.__cause__, ValueRefused):
            raise
        outline = client.outline(product, after, lane=lane, known=known)
        if len(outline):
            return outline
        # There were rows a moment ago: nothing is known if the answers differ.
        raise


def first_id(
    client: ExchangeClient,
    product: str,
    newest: int,
    lowest: Sight,
    *,
    lane: Lane = Lane.BACKFILL,
) -> int:
    """The lowest id that exists, given one that does and the page below PAGE_LIMIT + 1.

    No further request where history begins at id 1; otherwise a bisection between ids below which
    nothing is and ids below which something is, ended by asking below the id found, which must be
    answered with nothing. No cursor below 1 is sent.
    """
    nothing_below, exists = 1, newest
    page: Sight = lowest
    probe = PAGE_LIMIT + 1
    if len(page) == 0 and newest < probe:
        # The first trades came in between the two answers.
        page = _sight(client, product, probe, lane, known=newest)
    while True:
        if len(page) == 0:
            nothing_below = probe
        else:
            exists = min(exists, page.first_id)
        if exists == nothing_below:
            # The empty answer that led here may have been an old one of a cache: ask once more.
            return _proven_first(client, product, exists, lane)
        if 0 < len(page) < PAGE_LIMIT:
            return _proven_first(client, product, exists, lane)
        near = exists - nothing_below <= PAGE_LIMIT
        probe = exists if near else (nothing_below + exists) // 2
        page = _sight(client, product, probe, lane)


def _proven_first(client: ExchangeClient, product: str, candidate: int, lane: Lane) -> int:
    """Walk below the candidate until the exchange says that nothing is there."""
    while candidate > 1:
        page = _sight(client, product, candidate, lane)
        if len(page) == 0:
            break
        candidate = page.first_id
    return candidate


def first_id_since(
    client: ExchangeClient,
    product: str,
    moment: datetime,
    history: History,
    *,
    lane: Lane = Lane.BACKFILL,
) -> int:
    """The id from which on trades are at or after `moment`; `newest + 1` if none is.

    Times may run back by some milliseconds within a page, never by pages, so the search bisects
    on single trades down to a page and takes the lowest id of it that is late enough.
    """

    def time_below(cursor: int) -> tuple[int, datetime]:
        # The first trade lies below every cursor here, so an empty answer is never believed.
        page = client.page(product, cursor, limit=1, lane=lane, known=history.first)
        return page.last_id, _times(page)[-1]

    early, late = history.first - 1, history.newest + 1
    while late - early > PAGE_LIMIT:
        middle = (early + late) // 2
        found, time = time_below(middle + 1)
        if found <= early or time < moment:
            early = middle
        else:
            late = found
    known = late if late <= history.newest else history.newest
    page = client.page(product, late + 1, lane=lane, known=known)
    late_enough = [
        trade_id
        for trade_id, time in zip(page.trades.column(0).to_pylist(), _times(page), strict=True)
        if time >= moment
    ]
    return min(late_enough) if late_enough else late


def _times(page: Page) -> list[datetime]:
    times: list[datetime] = page.trades.column(1).to_pylist()
    return times
