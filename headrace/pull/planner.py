"""From a request and what is known of a product to the ids that are to be fetched."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headrace.coverage import EMPTY, IntervalSet, Range
from headrace.exchange.history import History, first_id_since
from headrace.exchange.pages import Page
from headrace.exchange.planning import Chunk, Sizing, plan_chunks, plan_pages, whole_pages
from headrace.exchange.source import Source
from headrace.lake import RawLake
from headrace.lake.grid import PAGE_IDS
from headrace.pull.history_ends import survey_ends
from headrace.pull.ledger import Stored
from headrace.pull.request import PullRequest
from headrace.quota import Lane


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


log = logging.getLogger(__name__)

#: The first id at or after a moment.
Since = Callable[[datetime], int]


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
        ingest_from: the lowest id that ingests answer for; 0 if none has begun yet.
    """

    history: History | None = None
    asked: Range | None = None
    proven_empty: IntervalSet = EMPTY
    missing: IntervalSet = EMPTY
    to_fetch: IntervalSet = EMPTY
    seen: tuple[Page, ...] = ()
    ingest_from: int = 0


def survey(
    client: Source,
    request: PullRequest,
    product: str,
    *,
    covered: IntervalSet,
    stored: Stored,
    failed_before: IntervalSet,
    lane: Lane,
    beyond: int = 0,
    ingest_from: int = 0,
) -> Survey:
    """Ask the exchange for what is not known, and work out what is missing.

    Args:
        covered: ids answered for in the lake.
        stored: what the lake and the checkpoint know of the ends; the exchange's own answer may be
            older than that, since it comes from a cache.
        failed_before: ranges that the last run tried and did not get.
        beyond: ids up to this are another run's to fetch.
        ingest_from: the lowest id that earlier ingests answered for; 0 if that is not known.

    Raises:
        LakeAhead: the exchange shows no trade, although some are stored.
        AnotherHistory: it shows others under the ids of those that are stored.
        RequestError: as the client's.
    """
    # A full refresh is how to take over what the exchange has corrected.
    compare = not request.full_refresh
    history, seen = survey_ends(client, stored, lane=lane, compare=compare)
    if history is None:
        return Survey()
    first, newest = history.first, history.newest
    now = datetime.now(UTC)

    def since(moment: datetime) -> int:
        return first_id_since(client, product, moment, history, lane=lane)

    begin, end = _asked(request, history, since, now)
    if request.planner == "ingest" and not beyond:
        begin = ingest_from = _ingest_from(
            request, product, history, covered, ingest_from, since, now
        )
    begin, end = max(begin, first, beyond + 1), min(end, newest)
    if end < begin:
        return Survey(history, ingest_from=ingest_from)
    missing = covered.gaps(begin, end)
    if request.full_refresh:
        missing = IntervalSet.of((begin, end))
    if request.only_failed:
        missing = missing & failed_before
    proven_empty = covered.gaps(1, (first - 1) // PAGE_IDS * PAGE_IDS)
    to_fetch = whole_pages(missing, newest)
    return Survey(
        history, (begin, end), proven_empty, missing, to_fetch, seen, ingest_from=ingest_from
    )


def _asked(request: PullRequest, history: History, since: Since, now: datetime) -> Range:
    """The range that the request means for this product, before it is cut to what exists."""
    begin, end = history.first, history.newest
    if request.from_id is not None:
        begin = request.from_id
    elif request.since is not None:
        begin = since(request.since)
    elif request.last is not None:
        begin = since(now - request.last)
    if request.to_id is not None:
        end = request.to_id
    elif request.until is not None:
        end = since(request.until + timedelta(microseconds=1)) - 1
    return begin, end


def _ingest_from(
    request: PullRequest,
    product: str,
    history: History,
    covered: IntervalSet,
    noted: int,
    since: Since,
    now: datetime,
) -> int:
    """The lowest id that ingests of the product answer for: what is below is left to a backfill.

    The whole history where the lake has its beginning; else where earlier ingests began, or the
    lake does. Where it holds nothing, the last hours up to now, and the newest page at least: a
    history of years would take hours at the quota, which was not asked for.
    """
    if covered.watermark(history.first) >= history.first:
        return history.first
    if noted:
        return noted
    held = covered & IntervalSet.of((history.first, history.newest))
    if held.first is not None:
        return held.first
    if not request.first_ingest_hours:
        return history.first
    begin = min(since(now - timedelta(hours=request.first_ingest_hours)), history.newest)
    if begin > history.first:
        log.warning(
            "%s: the lake holds nothing of it, so this first ingest takes the last %d h, from "
            "trade %d on; `headrace backfill %s` fetches what is before",
            product,
            request.first_ingest_hours,
            begin,
            product,
        )
    return begin
