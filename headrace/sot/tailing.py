"""Read a log in the order of `headrace.sot.recover`: what is there, then what is added to it.

Records are ordered as a replay orders them, by (largest `input_seq` of the symbol so far, symbol,
sequence). What is there at one moment is merged exactly so. While the log grows, shards commit at
different moments, so a record may become visible after one that belongs behind it. The engine's
`input_seq` counts the outputs of all symbols, so a record whose predecessor in that count was
handed on is next. Any other waits for what is missing, up to `hold_s`: an engine may leave numbers
out. What comes later than that is handed on out of its place, counted and logged.

What the store's own checks cover is checked: every byte of a block, sequences, and the links
between blocks. Recomputing hashes and digests is the work of `headrace.sot.verify`.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Final

from headrace.sot.chain import Position
from headrace.sot.chain_feed import Feed, Item, Key
from headrace.sot.cursor import Cursor
from headrace.sot.exceptions import DamagedLog
from headrace.sot.reading import NoSuchRecord, records_of
from headrace.sot.record import Record
from headrace.sot.store import Head, SotStore
from headrace.sot.verified_chain import ChainEnd, check_saved_head
from headrace.stopping import STOP, StopEvent

log = logging.getLogger(__name__)

#: How long a record waits for one that belongs before it and is not in the log.
HOLD_S: Final = 1.0
#: How often a log that grows is looked at; a cluster is asked symbol by symbol.
POLL_S: Final = 0.02
#: Records that wait for others, in memory; nothing more is read meanwhile.
_MOST_HELD: Final = 200_000


class Tail:
    """The records of a log, in order, from a cursor on.

    Iterate over it for records, or over `batches` for frames. `cursor` says at any moment how far
    it has come: what was handed on is behind it.

    Args:
        store: the log.
        cursor: where to begin; None for the beginning.
        follow: go on with what is added, until `stop` is set; else end with what is there now.
        symbols: only these; empty for all, also those that come later.
        hold_s: see the module.
        poll_s: pause between two looks at a log that has nothing new.
        stop: ends it, also while it waits.
        clock: seconds that never go back.

    Attributes:
        late: records that came after one that belongs behind them.

    Raises:
        NoSuchRecord: the log does not have a symbol.
        DamagedLog: the cursor is about another history.
    """

    def __init__(
        self,
        store: SotStore,
        cursor: Cursor | None = None,
        *,
        follow: bool = False,
        symbols: tuple[int, ...] = (),
        hold_s: float = HOLD_S,
        poll_s: float = POLL_S,
        stop: StopEvent = STOP,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.late = 0
        self._store = store
        self._given = cursor or Cursor()
        self._follow = follow
        self._wanted = frozenset(symbols)
        self._hold_s = hold_s
        self._poll_s = poll_s
        self._stop = stop
        self._clock = clock
        self._feeds: dict[int, Feed] = {}
        self._heads: dict[int, Position] = {}
        self._held: list[Item] = []
        #: The order up to which everything was handed on, and the last record that was.
        self._order = int(self._given.order)
        self._last: Key = (self._order, -1, -1)
        self._check_symbols()

    @property
    def cursor(self) -> Cursor:
        """Behind the last record that was handed on."""
        reached = dict(self._given.symbols)
        for symbol_id, feed in self._feeds.items():
            place = feed.reached()
            if place is not None:
                reached[str(symbol_id)] = place
        return Cursor(order=str(self._order), symbols=reached)

    def __iter__(self) -> Iterator[Record]:
        """The records, each behind the cursor as soon as it is handed out."""
        for items in self._item_batches():
            for item in items:
                self._hand_on([item])
                yield next(records_of(item[3]))

    def batches(self) -> Iterator[list[bytes]]:
        """Frames, as many as there are; a batch is behind the cursor once the next is asked for.

        So a batch that could not be passed on is not lost: the cursor is still in front of it.

        Raises:
            DamagedLog: behind all records that come before the damage.
            StoreUnavailable: the store does not answer.
        """
        for items in self._item_batches():
            yield [item[3] for item in items]
            self._hand_on(items)

    def _check_symbols(self) -> None:
        if missing := sorted(self._wanted - set(self._store.symbols())):
            raise NoSuchRecord(self._store.location, missing[0])
        for text, reached in self._given.symbols.items():
            symbol_id = int(text)
            head = self._store.head(symbol_id)
            if head is None:
                raise NoSuchRecord(self._store.location, symbol_id)
            check_saved_head(self._store, ChainEnd(symbol_id, head, saved_head=reached.position))

    def _item_batches(self) -> Iterator[list[Item]]:
        self._look()
        for damage in self._store.damages():
            self._place(damage)
        while not self._stop.is_set():
            due = self._due()
            if due:
                yield due
            unread = self._room and any(feed.unread for feed in self._feeds.values())
            if not due and not unread and (damaged := self._end_of_whole()):
                raise damaged
            if self._follow:
                if not self._look() and not due and not unread:
                    self._stop.wait(self._poll_s)
            elif not due and not unread:
                return

    @property
    def _room(self) -> bool:
        return len(self._held) < _MOST_HELD

    def _look(self) -> bool:
        """See how far the chains go by now; whether anything is new."""
        now_s, new = self._clock(), False
        try:
            for head in self._store.moved_heads(self._heads):
                self._heads[head.symbol_id] = head.position
                if not self._wanted or head.symbol_id in self._wanted:
                    self._feed(head).extend(head, now_s)
                    new = True
        except DamagedLog as damage:
            self._place(damage)
        return new

    def _feed(self, head: Head) -> Feed:
        feed = self._feeds.get(head.symbol_id)
        if feed is None:
            reached = self._given.symbols.get(str(head.symbol_id))
            feed = self._feeds[head.symbol_id] = Feed(head, reached)
        return feed

    def _place(self, damage: DamagedLog) -> None:
        """Have the whole end where a chain ends as damaged; without a chain, at once."""
        if damage.symbol_id is None:
            raise damage
        if self._wanted and damage.symbol_id not in self._wanted:
            return
        feed = self._feeds.get(damage.symbol_id)
        if feed is None:
            raise damage
        feed.damage = feed.damage or damage

    def _end_of_whole(self) -> DamagedLog | None:
        """The damage that comes next, once all that comes before it was handed on."""
        ends = [
            (feed.bound, feed.damage)
            for feed in self._feeds.values()
            if feed.damage is not None and feed.bound is not None and not feed.more
        ]
        if not ends:
            return None
        bound, damage = min(ends, key=lambda end: end[0])
        waiting = [self._held, *(feed.items for feed in self._feeds.values())]
        if any(items and items[0][:3] <= bound for items in waiting):
            return None
        return damage

    def _due(self) -> list[Item]:
        """What can be handed on now, in order."""
        if self._room and (read := self._readable()):
            self._held = sorted([*self._held, *read])
        items = self._held
        count = self._count_due(items) if self._follow else len(items)
        due, self._held = items[:count], items[count:]
        return due

    def _readable(self) -> list[Item]:
        """What was read, and comes before all that was not."""
        feeds = self._feeds.values()
        for feed in feeds:
            if feed.unread:
                feed.load(self._store)
        bounds = [feed.bound for feed in feeds]
        bound = min((bound for bound in bounds if bound is not None), default=None)
        found: list[Item] = []
        for feed in feeds:
            count = len(feed.items)
            if bound is not None:
                count = bisect_right(feed.items, bound, key=_key)
            if count:
                found += feed.items[:count]
                feed.items = feed.items[count:]
        return found

    def _count_due(self, items: list[Item]) -> int:
        """How many from the beginning are next, or have waited long enough for what is missing."""
        now_s, order = self._clock(), self._order
        for place, item in enumerate(items):
            if item[0] > order + 1 and not self._has_waited(item, now_s):
                return place
            order = max(order, item[0])
        return len(items)

    def _has_waited(self, item: Item, now_s: float) -> bool:
        return now_s - self._feeds[item[1]].seen_s(item[2]) >= self._hold_s

    def _hand_on(self, items: list[Item]) -> None:
        """These were handed on, in order: the cursor is behind them."""
        late = bisect_left(items, self._last, key=_key)
        if late:
            self._count_late(items[:late])
        if late < len(items):
            self._last, self._order = items[-1][:3], items[-1][0]
        for symbol_id, last in {item[1]: item for item in items}.items():
            self._feeds[symbol_id].hand_on(last)

    def _count_late(self, items: list[Item]) -> None:
        before, self.late = self.late, self.late + len(items)
        if self.late.bit_length() > before.bit_length():  # a line at 1, 2, 4, 8 ...
            log.warning(
                "symbol %s, seq %s: it came after records that belong behind it (%s so far)",
                items[0][1],
                items[0][2],
                self.late,
            )


def _key(item: Item) -> Key:
    return item[:3]
