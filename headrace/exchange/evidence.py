"""Which answers show that ids are free: kept as evidence beside the trades."""

from __future__ import annotations

from datetime import datetime

import pyarrow.compute as pc

from headrace.exchange.pages import Outline, Page
from headrace.lake.answer_evidence import Answer
from headrace.lake.grid import PAGE_IDS


def find_long_holes(page: Page, at: datetime) -> tuple[Answer, ...]:
    """The page as evidence for each hole of a page or more between two of its rows.

    Args:
        page: an answer that was believed.
        at: when it was read.
    """
    longest = min(page.limit, PAGE_IDS)
    if not len(page) or page.last_id - page.first_id + 1 - len(page) < longest:
        return ()
    ids = page.trades.column(0)
    steps = pc.subtract(ids[1:], ids[:-1])
    rows = pc.indices_nonzero(pc.greater(steps, longest)).to_pylist()
    return tuple(_answer(page, at, ids[row].as_py(), ids[row + 1].as_py()) for row in rows)


def shows_beginning(page: Page | Outline, at: datetime) -> Answer:
    """A page with fewer trades than were asked for, as evidence that nothing is older."""
    return _answer(page, at, 0, page.first_id)


def shows_newest(page: Page | Outline, at: datetime) -> Answer:
    """The newest page as evidence of the newest trade: nothing else is said of what follows it."""
    return _answer(page, at, page.last_id, page.last_id)


def _answer(page: Page | Outline, at: datetime, left: int, right: int) -> Answer:
    return Answer(page.after, at, len(page), page.first_id, page.last_id, (left, right))
