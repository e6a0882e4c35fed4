"""Where a product's history begins and ends, and which id a time means: proven by asking."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from headrace.exchange.exceptions import Contradiction, ValueRefused
from headrace.exchange.pages import Page
from headrace.exchange.proof import (
    Check,
    Sight,
    check_agrees,
    check_reaches,
    shows_beginning,
    unchecked,
)
from headrace.exchange.source import Source
from headrace.lake.answer_evidence import Answer
from headrace.quota import Lane
from headrace.wire.exceptions import RetriesExhausted

#: So many empty answers it takes to believe that a product has no trade.
_EMPTY_TO_BELIEVE = 12
#: So many answers to different cursors have to end with a trade before it is the first.
_ENDS_TO_BELIEVE = 3
#: A search for the first trade takes some 30 answers, or 80 among ids of 63 bits.
_MOST_LOOKS = 200


@dataclass(frozen=True, slots=True)
class History:
    """The span of a product's trades as far as it was asked for; ids, both existing.

    `begins` are the answers that show that nothing is older, if it was asked for.
    """

    first: int
    newest: int
    begins: tuple[Answer, ...] = ()


def newest_page(
    client: Source, product: str, *, lane: Lane = Lane.BACKFILL, check: Check = unchecked
) -> Sight:
    """The newest page as the exchange shows it now, or as a cache did some seconds ago.

    A whole page: its trades are wanted anyway, and cost no second request then.
    """
    return sight(client, product, None, lane, check)


def both_ends(client: Source, product: str, *, lane: Lane = Lane.BACKFILL) -> tuple[Sight, Sight]:
    """The newest page, and that of the lowest ids, asked for at the same time.

    Nothing can be planned before both are known, so one after the other would leave the quota
    unused for the length of a second answer. One that denies a trade of the other is asked for
    again; no trade is believed only if both say so.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="survey") as pool:
        asked = pool.submit(sight, client, product, client.page_limit + 1, lane)
        newest = newest_page(client, product, lane=lane)
        lowest = asked.result()
    # That there is no trade at all nothing can contradict; so it takes more than two answers.
    for _ in range(_EMPTY_TO_BELIEVE - 2):
        if len(newest) or len(lowest):
            break
        newest = newest_page(client, product, lane=lane)
    if _denies(lowest, newest):
        check = partial(check_agrees, other=newest)
        lowest = sight(client, product, client.page_limit + 1, lane, check)
    if _denies(newest, lowest):
        # Either the first trades came in between, or the newest page is an old one of a cache.
        newest = newest_page(client, product, lane=lane, check=partial(check_agrees, other=lowest))
    return newest, lowest


def _denies(page: Sight, other: Sight) -> bool:
    """Whether a page denies trades of another."""
    try:
        check_agrees(page, other=other)
    except Contradiction:
        return True
    return False


def sight(
    client: Source, product: str, after: int | None, lane: Lane, check: Check = unchecked
) -> Sight:
    """A page, or where it holds what cannot be kept, its ids: one bad row must not hide the rest.

    A walk over that range finds the row again, and names it.
    """
    try:
        return client.page(product, after, lane=lane, check=check)
    except RetriesExhausted as given_up:
        if not isinstance(given_up.__cause__, ValueRefused):
            raise
        outline = client.outline(product, after, lane=lane, check=check)
        if len(outline):
            return outline
        # There were rows a moment ago: nothing is known if the answers differ.
        raise


def find_first(
    client: Source, product: str, newest: Sight, lowest: Sight, *, lane: Lane = Lane.BACKFILL
) -> tuple[int, tuple[Answer, ...]]:
    """The lowest id that exists, and the answers that show that nothing is older.

    Given are the newest page and the lowest one, below limit + 1.

    No further request where history begins at id 1; otherwise a bisection between ids below which
    nothing is and ids that exist. It ends when three answers to different cursors show the same
    trade as their last, and are short: an empty answer is a hint, and proves nothing. No cursor
    below 1 is sent.

    Raises:
        Contradiction: the answers do not agree.
        RequestError: as the client's.
    """
    exists, nothing_below, shown = newest.first_id, 1, newest
    ends: dict[int | None, Answer] = {}
    looks: list[Sight] = [newest, lowest]
    for _ in range(_MOST_LOOKS):
        for page in looks:
            if not len(page):
                nothing_below = max(nothing_below, page.after or 1)
                continue
            if page.first_id < exists:
                exists, ends, shown = page.first_id, {}, page
            if page.first_id == exists and not page.full:
                ends[page.after] = shows_beginning(page, datetime.now(UTC))
        if nothing_below > exists:
            nothing_below = 1  # That empty answer was wrong.
        if exists == 1 or len(ends) >= _ENDS_TO_BELIEVE:
            return exists, tuple(ends.values())
        if ends or exists - nothing_below <= client.page_limit:
            # A page that was cut short would have to be cut at the same trade each time.
            step = max(client.page_limit // 8, 1)
            probes = (exists + 1, exists + 2 * step, exists + step, exists + 3 * step)
            probe = next(at for at in probes if at not in ends)
        else:
            probe = (nothing_below + exists) // 2
        check = partial(check_agrees, other=shown)
        looks = [sight(client, product, probe, lane, check)]
    raise Contradiction(
        f"{_MOST_LOOKS} answers do not agree where its history begins", product=product
    )


def first_id_since(
    client: Source, product: str, moment: datetime, history: History, *, lane: Lane = Lane.BACKFILL
) -> int:
    """The id from which on trades are at or after `moment`; `newest + 1` if none is.

    Times may run back by some milliseconds within a page, never by pages, so the search bisects
    on single trades down to a page and takes the lowest id of it that is late enough.
    """

    def time_below(cursor: int) -> tuple[int, datetime]:
        # The first trade lies below every cursor here, so an empty answer is never believed.
        check = partial(check_reaches, exists=history.first)
        page = client.page(product, cursor, limit=1, lane=lane, check=check)
        return page.last_id, _times(page)[-1]

    early, late = history.first - 1, history.newest + 1
    while late - early > client.page_limit:
        middle = (early + late) // 2
        found, time = time_below(middle + 1)
        if found <= early or time < moment:
            early = middle
        else:
            late = found
    known = late if late <= history.newest else history.newest
    check = partial(check_reaches, exists=known)
    page = client.page(product, late + 1, lane=lane, check=check)
    late_enough = [
        trade_id
        for trade_id, time in zip(page.trades.column(0).to_pylist(), _times(page), strict=True)
        if time >= moment
    ]
    return min(late_enough) if late_enough else late


def _times(page: Page) -> list[datetime]:
    times: list[datetime] = page.trades.column(1).to_pylist()
    return times
