"""Taking raw trades of one product into the tables: what is new, and what has changed since.

What was taken is a set of ids (`headrace.unified.taken_ids`). New are the ids that the raw layer
answers for and that were not taken. Parts that got their name or content since the last look are
held against the rows that were made of their ids; those that differ are taken again, and the new
rows take the place of the old ones in one commit. Ids that the raw layer answers for no longer keep
their rows, until it answers for them again.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from headrace.coverage import EMPTY, IntervalSet
from headrace.lake import RawLake
from headrace.lake.digest import ContentDigest, content_digest
from headrace.lake.exceptions import ObjectMissing
from headrace.lake.parts import Part
from headrace.stopping import STOP, StopEvent
from headrace.unified.commits import Change, FileChanges, Tables, committed
from headrace.unified.contents import content_of
from headrace.unified.exceptions import RowsDiffer
from headrace.unified.output import Output, Piece
from headrace.unified.rows import by_month, digest_of, rows_within, unified
from headrace.unified.table import Snapshot, UnifiedFile
from headrace.unified.taken_ids import Taken, app_id

FILE_BYTES = 128 << 20
#: Rows of a product after which a commit is due, which a kill then cannot cost any more.
COMMIT_ROWS = 10_000_000
#: Parts that are read and converted at once, of all products, and how many of one product may wait
#: to be written.
_READERS, _AHEAD = max(2, min(4, os.cpu_count() or 1)), 2
#: A part may show up so much later than its time says: a slow store, a clock that runs behind.
_LATE_US = 60_000_000
_LOOKS = 5


class Taker:
    """Takes products into the tables, a part at a time.

    Args:
        raw: the raw layer.
        tables: what is written.
        file_bytes: how large a file may grow.
        commit_rows: rows after which what is complete is to be committed.
        stop: once it is set, what is complete is given and nothing more is read.
        on_rows: called with the number of rows that were converted.
    """

    def __init__(
        self,
        raw: RawLake,
        tables: Tables,
        *,
        file_bytes: int = FILE_BYTES,
        commit_rows: int = COMMIT_ROWS,
        stop: StopEvent = STOP,
        on_rows: Callable[[int], None] = lambda _rows: None,
    ) -> None:
        self._raw = raw
        self._tables = tables
        self._file_bytes = file_bytes
        self._commit_rows = commit_rows
        self._stop = stop
        self._on_rows = on_rows
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="unify")

    def changes(self, symbol: str) -> Generator[Change]:
        """What is to be committed of a product, in order; each before the next is asked for.

        Args:
            symbol: the product.

        Raises:
            PartUnreadable, FooterTooNew: a part cannot be used.
            RowsDiffer: converted rows are not those of their part.
            TableDamaged, TableTooNew, TableUnreachable, StoreError: as they say.
        """
        exchange = self._raw.exchange
        trades = self._tables.snapshot(self._tables.trades)
        quarantine = self._tables.snapshot(self._tables.quarantine)
        base = Taken.of(trades.transactions, exchange, symbol)
        parts = self._raw.parts(symbol).parts
        coverage = IntervalSet.from_ranges((part.lo, part.hi) for part in parts)
        quarantine_commits = Taken.of(quarantine.transactions, exchange, symbol).commits
        changed = self._changed(trades, quarantine, symbol, base)
        seen_us = _seen_until(parts, base.seen_us)
        wanted = (coverage - base.ranges) | changed
        if not wanted and seen_us == base.seen_us and base.aside == quarantine_commits:
            return
        if not self._stop.is_set():  # else not all was looked at
            base = replace(base, aside=quarantine_commits)
        old = _meeting(trades.files(exchange=exchange, symbol=symbol), changed)
        # Also rows of a run that was killed before it could commit the others.
        old_aside = _meeting(quarantine.files(exchange=exchange, symbol=symbol), wanted)
        at_once = bool(old or old_aside)
        output = Output(self._tables, exchange, symbol, self._file_bytes)
        done = EMPTY

        def change(seen: int) -> Change:
            taken_rows, misfits = output.rows, output.misfits
            adds, aside = output.finished()
            return Change(
                exchange,
                symbol,
                replace(base, ranges=base.ranges | done, seen_us=seen),
                quarantine_commits,
                FileChanges(adds, old),
                FileChanges(aside, old_aside),
                taken_rows,
                misfits,
            )

        with output:
            output.keep(trades, old, changed)
            output.keep(quarantine, old_aside, wanted)
            for piece in self._pieces(symbol, wanted):
                output.write(piece)
                done |= piece.ids
                if output.rows >= self._commit_rows and not at_once:
                    one = change(base.seen_us)
                    yield one
                    quarantine_commits += bool(one.quarantine)
                    base = committed(base, one)
            if self._stop.is_set() and at_once:
                return  # what it replaces would be lost
            yield change(base.seen_us if self._stop.is_set() else seen_us)

    def rebuilt(self, symbol: str, *, fresh: bool) -> Change | None:
        """Everything of a product again, in place of all that was taken: one change.

        Args:
            symbol: the product.
            fresh: the tables cannot be read, and will be made again.

        Returns:
            None if the stop was set.

        Raises:
            As `changes`.
        """
        exchange = self._raw.exchange
        base, quarantine_commits = Taken(), 0
        old: tuple[UnifiedFile, ...] = ()
        old_aside: tuple[UnifiedFile, ...] = ()
        if not fresh:
            trades = self._tables.snapshot(self._tables.trades)
            quarantine = self._tables.snapshot(self._tables.quarantine)
            base = Taken.of(trades.transactions, exchange, symbol)
            quarantine_commits = Taken.of(quarantine.transactions, exchange, symbol).commits
            old = tuple(trades.files(exchange=exchange, symbol=symbol))
            old_aside = tuple(quarantine.files(exchange=exchange, symbol=symbol))
        parts = self._raw.parts(symbol).parts
        wanted = IntervalSet.from_ranges((part.lo, part.hi) for part in parts)
        done = EMPTY
        with Output(self._tables, exchange, symbol, self._file_bytes) as output:
            for piece in self._pieces(symbol, wanted):
                output.write(piece)
                done |= piece.ids
            if self._stop.is_set():
                return None
            taken_rows, misfits = output.rows, output.misfits
            adds, aside = output.finished()
        return Change(
            exchange,
            symbol,
            Taken(base.commits, done, _seen_until(parts, 0), quarantine_commits),
            quarantine_commits,
            FileChanges(adds, old),
            FileChanges(aside, old_aside),
            taken_rows,
            misfits,
        )

    def _changed(
        self, trades: Snapshot, quarantine: Snapshot, symbol: str, base: Taken
    ) -> IntervalSet:
        """The ids taken whose raw trades are others now, or whose quarantine is not theirs."""
        exchange = self._raw.exchange
        suspected = EMPTY
        if base.aside != quarantine.transactions.get(app_id(exchange, symbol), 0):
            suspected = IntervalSet.from_ranges(
                (file.first_id, file.last_id)
                for file in quarantine.files(exchange=exchange, symbol=symbol)
            )
        for look in range(_LOOKS):
            changed = EMPTY
            try:
                for part in self._raw.parts(symbol).parts:
                    ids = IntervalSet.of((part.lo, part.hi))
                    if part.changed_us <= base.seen_us and not ids & suspected:
                        continue
                    if self._stop.is_set():
                        continue
                    ids &= base.ranges
                    if ids and self._content(part, ids) != content_of(
                        trades, quarantine, exchange, symbol, ids
                    ):
                        changed |= ids
            except ObjectMissing:  # merged away since it was listed
                if look == _LOOKS - 1:
                    raise
                continue
            return changed
        return EMPTY

    def _content(self, part: Part, ids: IntervalSet) -> tuple[int, ContentDigest]:
        """Rows and digest of a part, or of some ids of it."""
        if ids.contains(part.lo, part.hi):
            footer = self._raw.footer(part)
            return footer.rows, footer.content
        table, _ = self._raw.read_part(part)
        rows = rows_within(table, ids)
        return rows.num_rows, content_digest(rows)

    def _pieces(self, symbol: str, wanted: IntervalSet) -> Iterator[Piece]:
        """What becomes of the wanted ids, rising; fewer if the stop is set."""
        gone: Part | None = None
        while wanted:
            shares = _shares(self._raw.parts(symbol).parts, wanted)
            waiting: deque[tuple[Part, Future[Piece]]] = deque()
            try:
                while True:
                    while len(waiting) < _AHEAD and not self._stop.is_set():
                        part, ids = next(shares, (None, EMPTY))
                        if part is None:
                            break
                        converted = self._readers.submit(self._piece, symbol, part, ids)
                        waiting.append((part, converted))
                    if not waiting:
                        return
                    part, converted = waiting.popleft()
                    piece = converted.result()
                    wanted -= piece.ids
                    yield piece
            except ObjectMissing:  # merged away: its ids are in another part now
                if part == gone:
                    raise
                gone = part
            finally:
                for _, converted in waiting:
                    converted.cancel()

    def _piece(self, symbol: str, part: Part, ids: IntervalSet) -> Piece:
        table, footer = self._raw.read_part(part)
        if ids.contains(part.lo, part.hi):
            rows, expected = table, footer.content
        else:
            rows = rows_within(table, ids)
            expected = content_digest(rows)
        made = unified(rows)
        aside = digest_of(made.misfits)
        found = digest_of(made.rows)
        if (made.rows.num_rows + made.misfits.num_rows, found + aside) != (rows.num_rows, expected):
            raise RowsDiffer(
                f"{symbol}: what was made of {part.key}",
                expected=f"{rows.num_rows} rows, digest {expected}",
                found=f"{made.rows.num_rows + made.misfits.num_rows} rows, digest {found + aside}",
                hint="Look at the part with `headrace audit --deep`",
            )
        months = list(by_month(made.rows))
        self._on_rows(rows.num_rows)
        return Piece(
            ids,
            tuple(
                (month, of_month, found if len(months) == 1 else digest_of(of_month))
                for month, of_month in months
            ),
            made.misfits,
        )


def _shares(parts: Iterable[Part], wanted: IntervalSet) -> Iterator[tuple[Part, IntervalSet]]:
    """Which of the wanted ids each part is to give, each id once."""
    for part in parts:
        ids = IntervalSet.of((part.lo, part.hi)) & wanted
        if ids:
            wanted -= ids
            yield part, ids


def _meeting(files: Sequence[UnifiedFile], ids: IntervalSet) -> tuple[UnifiedFile, ...]:
    """The files that may hold rows of these ids."""
    return tuple(f for f in files if IntervalSet.of((f.first_id, f.last_id)) & ids)


def _seen_until(parts: Sequence[Part], seen_us: int) -> int:
    """Until when changes have been looked at once these parts are taken.

    Of parts that are this young others may follow that are said to be older.
    """
    newest = max((part.changed_us for part in parts), default=0)
    if time.time_ns() // 1_000 - newest < _LATE_US:
        newest -= _LATE_US
    return max(seen_us, newest)
