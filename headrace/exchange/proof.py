"""What an answer proves: the one place that decides which claims of the exchange are believed.

A page for cursor *c* claims "these are the newest trades older than *c*, as many as were asked for,
or all that there are". The rows that a page shows exist. What it says by leaving rows out is a
claim, and every claim is held against what is known: the first trade, the newest trade shown or
stored, and the rows of other answers of the same run.

full page
    Proves its rows, and that ids between two adjacent rows are holes. It is a failure of the server
    if it denies an id that is known to exist, or if a row differs from an earlier answer's.
short page
    Proves the same, and claims that its oldest row is the first trade: a failure if that is known
    to be another one. A server that drops rows without filling the page up is found out by this.
empty page
    Claims that nothing is older than its cursor: a failure if any trade is known there.
page that meets what lies above
    Its newest row is `c - 1`, or it shows a known row from *c* on again. No id is left between it
    and what is known above, but those between two adjacent rows of this one answer.
page that begins lower
    Cut at the front, from an old replica, or below a true hole: that is open. It proves
    nothing of the ids between its newest row and *c*. An answer that shows a row on either side of
    them is asked for, and decides. A failure if an id is known in between.
page with ids at or above its cursor
    A failure, always (`StuckPage`).
newest page
    Proves a lower bound of the newest trade. A failure if it is empty, or short, although older
    trades are known. One that is older than what an earlier run stored takes nothing back.
page of another product
    A failure where its ids do not fit, in one of the ways above, or where it shares an id with
    another answer or with the lake, whose row is another one.

A failure (`Contradiction`) is asked for again with growing pauses, and ends as a failed range,
however often it is repeated. A hole comes from two adjacent ids inside one answer, and from nothing
else.

The first trade is believed when its id is 1, or when three answers to different cursors show it and
end with it. Empty answers alone never prove where a history begins. That there is no trade at all
nothing can contradict: it takes a dozen empty answers.

What cannot be proven: that the newest trade shown is the newest there is (the next run asks again);
that no row is missing inside a full page that meets what lies above, or inside the page in which a
history begins; that a page is of the right product if its ids fit and it shares none with another
answer.

The cost: none where no id is missing right below a cursor. In a history with holes the next cursor
lies above a row that was shown, so that one answer shows both ends of a gap.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from headrace.exchange.exceptions import Contradiction
from headrace.exchange.pages import Outline, Page
from headrace.lake.answer_evidence import Answer
from headrace.lake.digest import content_digest
from headrace.lake.grid import PAGE_IDS
from headrace.trades import rows_between

#: What one look at a page shows: all of it, or its ids.
Sight = Page | Outline

#: Raises `Contradiction` for an answer that denies what is known.
Check = Callable[[Sight], None]

#: Up to this share of free ids, a walk begins right at its cursor.
_FEW_HOLES = 0.02
#: So many long holes are remembered for the chunks that lie in them.
_HOLES_KEPT = 64
#: So many rows above its cursor, on average, a walk of a thin product asks for.
_ROWS_AHEAD = 5


class Known:
    """What is known of a product's ids while its chunks are walked. Safe to use from many threads.

    Args:
        first: the first trade; proven.
        newest: the newest trade that was shown.
        seen: pages of this run that need not be asked for again; no answer may deny their rows.
        begins: the answers that show that nothing is older than `first`, if this run has seen them.
        now: says when an answer was read.
    """

    def __init__(
        self,
        first: int,
        newest: int,
        seen: Sequence[Page] = (),
        begins: tuple[Answer, ...] = (),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.first = first
        self.newest = newest
        self.seen = tuple(page for page in seen if len(page))
        self.begins = begins
        self._now = now
        self._holes: deque[Answer] = deque(maxlen=_HOLES_KEPT)
        self._ids_per_row = max((_ids_per_row(page) for page in self.seen), default=1.0)
        self._lock = threading.Lock()

    def below(self, cursor: int) -> int | None:
        """The highest id known to exist below `cursor`, if any."""
        found = [each for each in (self.newest, self.first) if each < cursor]
        found += [each for page in self.seen if (each := page.highest_below(cursor)) is not None]
        return max(found, default=None)

    def above(self, cursor: int) -> int | None:
        """The lowest id known to exist at or above `cursor`, if any."""
        found = [each for each in (self.newest, self.first) if each >= cursor]
        found += [page.first_id for page in self.seen if page.first_id >= cursor]
        return min(found, default=None)

    def ahead(self) -> int:
        """How far above its cursor a walk should begin, so that its first answer meets it.

        In a thin product the id below the cursor is likely free. An answer that begins some rows
        higher shows both ends of that gap, and costs no second request.
        """
        ids_per_row = self._ids_per_row
        return 0 if ids_per_row * (1 - _FEW_HOLES) <= 1 else int(_ROWS_AHEAD * ids_per_row) + 1

    def shown(self, cursor: int, bottom: int) -> Page | None:
        """What the exchange would answer below `cursor`, if pages that were seen show all of it.

        All of it is a full page, or what there is down to `bottom`; for less it is asked.
        """
        for page in self.seen:
            part = page.below(cursor)
            if part is not None and (len(part) >= part.limit or part.first_id <= bottom):
                return part
        return None

    def hole_below(self, cursor: int) -> Answer | None:
        """An answer that shows that nothing is right below `cursor`, if one has been learned."""
        with self._lock:
            for hole in self._holes:
                left, right = hole.between
                if left + 1 < cursor <= right:
                    return hole
        return None

    def learn(self, page: Page) -> tuple[Answer, ...]:
        """Keep what helps other walks: how thin the product is here, and the longest hole.

        Returns:
            The page as evidence: of each of its long holes, and of where the history begins.
        """
        at = self._now()
        holes = find_long_holes(page, at)
        with self._lock:
            self._ids_per_row = _ids_per_row(page)
            if holes:
                self._holes.append(max(holes, key=lambda hole: hole.between[1] - hole.between[0]))
        ends_here = not page.full and page.first_id == self.first > 1
        return (*holes, shows_beginning(page, at)) if ends_here else holes

    def check(self, page: Sight, *, shown: Iterable[Page] = (), exists: int | None = None) -> None:
        """Hold an answer against what is known, the rows of the pages `shown`, and one more id.

        Raises:
            Contradiction: it denies what is known.
        """
        check_reaches(page, self.below(page.after) if page.after else self.newest)
        check_reaches(page, exists if exists and page.after and exists < page.after else None)
        check_end(page, self.first)
        for earlier in (*self.seen, *shown):
            check_rows(page, earlier.trades)


def unmet(page: Page, cursor: int) -> Contradiction:
    """Why a page that begins below `cursor` proves nothing of the ids between, and cannot."""
    problem = f"the page begins at id {page.last_id}, and no trade from {cursor} on is known"
    return _contradiction(page, problem)


def unchecked(_page: Sight) -> None:
    """The check of an answer of which nothing is known before."""


def both(one: Check, other: Check) -> Check:
    """A check that an answer passes which passes both."""

    def check(page: Sight) -> None:
        one(page)
        other(page)

    return check


def check_reaches(page: Sight, exists: int | None) -> None:
    """Refuse an answer that ends below `exists`, an id below its cursor that is known to exist.

    Raises:
        Contradiction: it does.
    """
    if exists is None or (len(page) and page.last_id >= exists):
        return
    reaches = f"goes up to id {page.last_id} only" if len(page) else "is empty"
    raise _contradiction(page, f"the page {reaches}, although trade {exists} exists")


def check_shows(page: Sight, trade_id: int) -> None:
    """Refuse an answer that denies one trade: it ends below it, or says that history ends above.

    Raises:
        Contradiction: it does.
    """
    if page.after is not None and page.after <= trade_id:
        return
    check_reaches(page, trade_id)
    if not page.full and page.first_id > trade_id:
        raise _contradiction(page, _ends_early(page, trade_id))


def check_agrees(page: Sight, other: Sight) -> None:
    """Refuse an answer that denies or changes a trade of another.

    Raises:
        Contradiction: it does.
    """
    if not len(other):
        return
    highest = other.last_id if page.after is None else other.highest_below(page.after)
    if highest is not None:
        check_reaches(page, highest)
        check_shows(page, other.first_id)
    if isinstance(other, Page):
        check_rows(page, other.trades)


def check_end(page: Sight, first: int) -> None:
    """Refuse an answer whose end, or what it says of it, is not that of a history from `first` on.

    Raises:
        Contradiction: it is short (or empty) although older trades exist, or shows older ones.
    """
    if len(page) and page.first_id < first:
        problem = f"the page shows trade {page.first_id}, although {first} is the first trade"
        raise _contradiction(page, problem)
    check_shows(page, first)


def check_rows(
    page: Sight, rows: pa.RecordBatch | pa.Table, *, of: str = "that of another answer"
) -> None:
    """Refuse an answer that lacks one of `rows` within its range, or shows another under its id.

    Ids that only the page has are no failure: a trade may have come to light since. `of` says in
    the error whose rows they are.

    Raises:
        Contradiction: it does.
    """
    if not isinstance(page, Page) or not len(page) or not rows.num_rows:
        return
    ids = rows.column(0)
    if ids[-1].as_py() < page.first_id or ids[0].as_py() > page.last_id:
        return
    trade_id = _first_difference(page, rows)
    if trade_id is not None:
        raise _contradiction(page, f"trade {trade_id} differs from {of}")


def _first_difference(page: Page, rows: pa.RecordBatch | pa.Table) -> int | None:
    """The lowest id of `rows` within the page's range that the page lacks or shows otherwise."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    expected = rows_between(table, page.first_id, page.last_id)
    if not expected.num_rows:
        return None
    ids = expected["trade_id"].combine_chunks()
    shown_rows = pa.Table.from_batches([page.trades])
    # Mostly it shows these rows and no others in between: then nothing has to be looked for.
    if rows_between(shown_rows, ids[0].as_py(), ids[-1].as_py()).equals(expected):
        return None
    found = shown_rows.filter(pc.is_in(page.trades.column(0), value_set=ids))
    # The same number may be written in another way since.
    if found.equals(expected) or content_digest(found) == content_digest(expected):
        return None
    shown = {row["trade_id"]: (at, row) for at, row in enumerate(found.to_pylist())}
    for at, row in enumerate(expected.to_pylist()):
        trade_id: int = row["trade_id"]
        if trade_id not in shown:
            return trade_id
        there, as_shown = shown[trade_id]
        one, other = expected.slice(at, 1), found.slice(there, 1)
        if row != as_shown and content_digest(one) != content_digest(other):
            return trade_id
    return None


def _ends_early(page: Sight, exists: int) -> str:
    return (
        f"the page ends with id {page.first_id}, {len(page)} trades where {page.limit} were asked "
        f"for, although trade {exists} exists"
    )


def _contradiction(page: Sight, problem: str) -> Contradiction:
    error = Contradiction(
        problem,
        product=page.product,
        cursor=page.after,
        status=200,
        hint="The exchange or a cache before it answers with an old or wrong state; nothing of "
        "this page was stored",
    )
    error.empty = not len(page)
    return error


def _ids_per_row(page: Page) -> float:
    return (page.last_id - page.first_id + 1) / len(page)


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
