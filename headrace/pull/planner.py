"""From a request and what is known of a product to the ids that are to be fetched."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headrace.coverage import EMPTY, IntervalSet, Range
from headrace.exchange.client import ExchangeClient
from headrace.exchange.history import (
    History,
    both_ends,
    first_id,
    first_id_since,
    newest_page,
)
from headrace.exchange.pages import PAGE_LIMIT, Page
from headrace.exchange.planning import whole_pages
from headrace.pull.exceptions import LakeAhead
from headrace.pull.request import PullRequest
from headrace.quota import Lane


@dataclass(frozen=True, slots=True)
class Survey:
    """What is to be done for one product, and on what knowledge.

    Args:
        history: first and newest trade, or None if the product has no trade yet.
        asked: the inclusive range that the request means, or None if it holds no trade.
        proven_empty: ids below the page of the first trade, proven absent, not yet in the lake.
        missing: ids of `asked` that the lake does not answer for.
        to_fetch: the same in whole pages of the grid.
        seen: the pages that answered, which need not be asked for again.
    """

    history: History | None = None
    asked: Range | None = None
    proven_empty: IntervalSet = EMPTY
    missing: IntervalSet = EMPTY
    to_fetch: IntervalSet = EMPTY
    seen: tuple[Page, ...] = ()


def survey(
    client: ExchangeClient,
    request: PullRequest,
    product: str,
    *,
    covered: IntervalSet,
    first_stored: int | None,
    newest_seen: int,
    failed_before: IntervalSet,
    lane: Lane,
    beyond: int = 0,
    now: datetime | None = None,
) -> Survey:
    """Ask the exchange for what is not known, and work out what is missing.

    Args:
        covered: ids answered for in the lake.
        first_stored: the lowest trade in the lake, if coverage reaches down to id 1.
        newest_seen: the newest trade that any earlier run saw; the exchange's own answer may be
            older than that, since it comes from a cache.
        failed_before: ranges that the last run tried and did not get.
        beyond: ids up to this are somebody else's to fetch.

    Raises:
        LakeAhead: the exchange shows no trade, although some are stored.
        ExchangeError: as the client's.
    """
    history, seen = _history(client, product, first_stored, newest_seen, lane)
    if history is None:
        return Survey()
    first, newest = history.first, history.newest
    begin, end = _asked(client, request, product, history, covered, lane, now)
    begin, end = max(begin, first, beyond + 1), min(end, newest)
    if end < begin:
        return Survey(history)
    missing = covered.gaps(begin, end)
    if request.full_refresh:
        missing = IntervalSet.of((begin, end))
    if request.only_failed:
        missing = missing & failed_before
    proven_empty = covered.gaps(1, (first - 1) // PAGE_LIMIT * PAGE_LIMIT)
    to_fetch = whole_pages(missing, newest)
    return Survey(history, (begin, end), proven_empty, missing, to_fetch, seen)


def _history(
    client: ExchangeClient, product: str, first_stored: int | None, newest_seen: int, lane: Lane
) -> tuple[History | None, tuple[Page, ...]]:
    """The ends of a history, and the pages that were seen on the way."""
    if first_stored is None:
        shown, lowest = both_ends(client, product, lane=lane)
    else:
        shown, lowest = newest_page(client, product, lane=lane), None
    if not len(shown):
        if newest_seen:
            raise LakeAhead(product, newest_seen)
        return None, ()
    newest = max(shown.last_id, newest_seen)
    if lowest is not None:
        first_stored = first_id(client, product, newest, lowest, lane=lane)
    seen = tuple(page for page in (shown, lowest) if isinstance(page, Page))
    return History(first_stored or newest, newest), seen


def _asked(
    client: ExchangeClient,
    request: PullRequest,
    product: str,
    history: History,
    covered: IntervalSet,
    lane: Lane,
    now: datetime | None,
) -> Range:
    """The range that the request means for this product, before it is cut to what exists."""

    def since(moment: datetime) -> int:
        return first_id_since(client, product, moment, history, lane=lane)

    begin, end = history.first, history.newest
    if request.from_id is not None:
        begin = request.from_id
    elif request.since is not None:
        begin = since(request.since)
    elif request.last is not None:
        begin = since((now or datetime.now(UTC)) - request.last)
    elif request.planner == "ingest":
        begin = covered.watermark(history.first) + 1
    if request.to_id is not None:
        end = request.to_id
    elif request.until is not None:
        end = since(request.until + timedelta(microseconds=1)) - 1
    return begin, end
