"""Where a product's history ends, as the exchange shows it, held against what the lake holds.

Ids alone do not say that it is the history which the lake holds. An exchange that is reset (test
nets are, regularly) begins its numbering again, and trades of two histories under rising ids would
look complete. So rows are compared where the two overlap: mostly in the newest page, which a run
asks for anyway.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pyarrow as pa

from headrace.coverage import EMPTY
from headrace.exchange.exceptions import Contradiction
from headrace.exchange.history import History, both_ends, find_first, newest_page, sight
from headrace.exchange.pages import Page
from headrace.exchange.proof import (
    Check,
    Sight,
    both,
    check_end,
    check_reaches,
    check_rows,
    check_shows,
    shows_newest,
    unchecked,
)
from headrace.exchange.source import Source
from headrace.lake import PAGE_IDS, RawLake
from headrace.lake.answer_evidence import Answer
from headrace.pull.exceptions import AnotherHistory, LakeAhead
from headrace.pull.ledger import Stored, load_known
from headrace.quota import Lane
from headrace.wire.exceptions import RetriesExhausted

log = logging.getLogger(__name__)

#: Of an overlap, the trades of so many ids at its upper end are compared.
_COMPARED_IDS = 2 * PAGE_IDS
_STORED = "the one that is stored"


def survey_ends(
    client: Source, stored: Stored, *, lane: Lane, compare: bool
) -> tuple[History | None, tuple[Page, ...]]:
    """The ends of a history (None: there is no trade), and the pages that were seen on the way.

    Args:
        stored: what is known before the exchange is asked.
        compare: hold the newest page against the lake's rows; see `check_history`.

    Raises:
        LakeAhead: the exchange shows no trade, although some are stored.
        AnotherHistory, PartUnreadable, StoreError, RequestError: as `check_history`.
    """
    product = stored.product
    shown, more = _newest_shown(client, stored, lane)
    if not len(shown):
        if stored.newest_seen:
            raise LakeAhead(product, stored.newest_seen)
        return None, ()
    known = stored.first
    first, begins = (known, ()) if known else find_first(client, product, shown, *more, lane=lane)
    check = partial(check_end, first=first)
    if not shown.full and shown.first_id > first:
        shown = newest_page(client, product, lane=lane, check=check)
    if compare:
        shown, *others = check_history(client, stored, shown, check=check, lane=lane)
        more = (*more, *others)
    if shown.last_id < stored.newest:
        # An old answer does no harm: what is stored was shown before. If it stays so, someone has
        # to look.
        log.warning(
            "%s: the exchange shows trades up to %s, and the lake holds %s: the answer is old, or "
            "the exchange has been set back. Nothing is fetched until it is ahead again",
            product,
            shown.last_id,
            stored.newest,
            extra={"event": "exchange-behind"},
        )
    newest = max(shown.last_id, stored.newest)
    if newest < stored.noted:
        newest = max(newest, _noted(client, product, stored.noted, check, lane))
    seen = tuple(page for page in (shown, *more) if isinstance(page, Page))
    return History(first, newest, begins), seen


def _newest_shown(client: Source, stored: Stored, lane: Lane) -> tuple[Sight, tuple[Sight, ...]]:
    """The newest page, and that of the lowest ids where the first trade is not known."""
    if stored.first is None:
        shown, lowest = both_ends(client, stored.product, lane=lane)
        return shown, (lowest,)
    check = partial(check_end, first=stored.first)
    return _newest_of(client, stored, check, lane), ()


def _newest_of(client: Source, stored: Stored, check: Check, lane: Lane) -> Sight:
    try:
        return newest_page(client, stored.product, lane=lane, check=check)
    except RetriesExhausted as given_up:
        denied = given_up.__cause__
        if isinstance(denied, Contradiction) and denied.empty:
            raise LakeAhead(stored.product, stored.newest_seen) from given_up
        raise


def _noted(client: Source, product: str, noted: int, check: Check, lane: Lane) -> int:
    """The newest id that an earlier run was shown and no run stored, if it is shown again; else 0.

    That run may have been shown a page of another product. If every answer denies the trade, they
    are believed, or the product would fail for ever.
    """
    check = both(check, partial(check_reaches, exists=noted))
    try:
        return newest_page(client, product, lane=lane, check=check).last_id
    except RetriesExhausted as given_up:
        if not isinstance(given_up.__cause__, Contradiction):
            raise
        log.warning("%s: trade %s, which an earlier run was shown, is not there", product, noted)
        return 0


def find_newest_shown(client: Source, lake: RawLake, product: str, *, lane: Lane) -> Answer | None:
    """The newest page that the exchange shows of the history which the lake holds, for an audit.

    None if it shows no trade and none is stored. One request, two where the newest page shares no
    trade with the lake.

    Raises:
        LakeAhead: the exchange shows no trade, although some are stored.
        AnotherHistory, PartUnreadable, StoreError, RequestError: as `check_history`.
    """
    newest = lake.newest(product)
    stored = Stored(product, lake, first=None, newest=newest.trade_id if newest else 0, noted=0)
    rows = _rows(stored, stored.newest, down_to=1)
    check = partial(check_shows, trade_id=rows[0][0].as_py()) if rows.num_rows else unchecked
    shown = _newest_of(client, stored, check, lane)
    if not len(shown):
        return None
    shown = check_history(client, stored, shown, check=check, lane=lane)[0]
    return shows_newest(shown, datetime.now(UTC))


def refresh_ends(client: Source, lake: RawLake, product: str) -> tuple[History, tuple[Page, ...]]:
    """The ends of a history as `survey_ends`, independent of what the lake says of its first trade.

    Raises:
        LakeAhead: the exchange shows no trade.
        AnotherHistory, PartUnreadable, StoreError, RequestError: as `check_history`.
    """
    stored = replace(load_known(lake, product, None, EMPTY), first=None)
    history, seen = survey_ends(client, stored, lane=Lane.BACKFILL, compare=True)
    if history is None:
        raise LakeAhead(product, stored.newest_seen)
    return history, seen


def check_history(
    client: Source, stored: Stored, shown: Sight, *, check: Check, lane: Lane
) -> tuple[Sight, ...]:
    """Hold the newest page against the lake; the pages seen, the newest one first.

    Where it shares no trade with the lake, the page of the newest trade stored is asked for: one
    request more, unless the run fetches what follows, since it needs that page then. An answer that
    differs is asked for again: it may be an old or a wrong one.

    Args:
        shown: the newest page, not empty.
        check: what every newest page has to pass.

    Raises:
        AnotherHistory: every answer differs from what is stored.
        PartUnreadable, StoreError: what is stored cannot be read.
        RequestError: as the client's.
    """
    if not stored.newest:
        return (shown,)

    def again(after: int | None, check: Check) -> Sight:
        try:
            return sight(client, stored.product, after, lane, check)
        except RetriesExhausted as given_up:
            if isinstance(given_up.__cause__, Contradiction):
                raise AnotherHistory(stored.product, given_up.__cause__.problem) from given_up
            raise

    rows = _rows(stored, min(shown.last_id, stored.newest), down_to=shown.first_id)
    if rows.num_rows:
        same = both(check, partial(check_rows, rows=rows, of=_STORED))
        try:
            same(shown)
        except Contradiction:
            shown = again(None, same)
        return (shown,)
    page_end = -(-stored.newest // PAGE_IDS) * PAGE_IDS
    # Most of this page is fetched again, or all but its lowest trade is new.
    after = page_end + 1 if stored.newest < page_end else stored.newest + PAGE_IDS
    rows = _rows(stored, stored.newest, down_to=page_end - PAGE_IDS + 1)
    same = both(
        partial(check_shows, trade_id=stored.newest), partial(check_rows, rows=rows, of=_STORED)
    )
    return shown, again(after, same)


def _rows(stored: Stored, newest: int, *, down_to: int) -> pa.Table:
    """The trades stored from `newest` down, as many ids as are compared."""
    lowest = max(1, down_to, newest - _COMPARED_IDS + 1)
    return stored.lake.read(stored.product, lowest, newest)
