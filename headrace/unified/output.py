"""Converted rows of one product, by month, into files that a change then brings into the tables."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from headrace.coverage import IntervalSet
from headrace.lake.digest import ContentDigest
from headrace.unified.commits import Tables
from headrace.unified.files import GROUP_ROWS, FileWriter, NewFile
from headrace.unified.rows import QUARANTINE_ROW_SCHEMA, ROW_SCHEMA, digest_of, rows_within
from headrace.unified.table import Snapshot, UnifiedFile

#: Months whose files are open at once; trades hardly go back in time by more.
_OPEN_MONTHS = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """What became of a part, or of some ids of it."""

    ids: IntervalSet
    months: tuple[tuple[str, pa.Table, ContentDigest], ...]
    misfits: pa.Table


class Output:
    """The files that are being written of one product, a month each."""

    def __init__(self, tables: Tables, exchange: str, symbol: str, file_bytes: int) -> None:
        self._tables = tables
        self._product = {"exchange": exchange, "symbol": symbol}
        self._file_bytes = file_bytes
        self._open: OrderedDict[str, FileWriter] = OrderedDict()
        self._last_rows: dict[str, int] = {}
        self._aside: FileWriter | None = None
        self._done: list[NewFile] = []
        self._done_aside: list[NewFile] = []
        self.rows = self.misfits = 0

    def __enter__(self) -> Output:
        return self

    def __exit__(self, *_: object) -> None:
        """Give up what was not finished; after the last change nothing is."""
        for writer in (*self._open.values(), *([self._aside] if self._aside else ())):
            writer.abandon()
        for table, files in (
            (self._tables.trades, self._done),
            (self._tables.quarantine, self._done_aside),
        ):
            for file in files:
                table.store.delete(f"{table.root}/{file.path}")

    def write(self, piece: Piece) -> None:
        """Add the rows of a piece, whose ids are above those of the piece before."""
        for month, rows, digest in piece.months:
            self._writer(month).write(rows, digest)
            self.rows += rows.num_rows
            self._last_rows[month] = self.rows
        if piece.misfits.num_rows:
            if self._aside is None:
                self._aside = FileWriter(
                    self._tables.quarantine, self._product, QUARANTINE_ROW_SCHEMA
                )
            self._aside.write(piece.misfits, digest_of(piece.misfits))
            self.rows += piece.misfits.num_rows
            self.misfits += piece.misfits.num_rows
        # A month that is over: what its file holds for the next row group costs memory.
        for month in [m for m in self._open if self.rows - self._last_rows[m] >= GROUP_ROWS]:
            self._close(month)

    def keep(self, snapshot: Snapshot, files: Sequence[UnifiedFile], but: IntervalSet) -> None:
        """Write the rows of files that are to go again, but for those of some ids."""
        table = snapshot.table
        trades = table is self._tables.trades
        for file in files:
            writer = FileWriter(
                table, file.partition, ROW_SCHEMA if trades else QUARANTINE_ROW_SCHEMA
            )
            rest = IntervalSet.of((file.first_id, file.last_id)) - but
            kept = 0
            try:
                for rows in snapshot.read(file.path):
                    rows = rows_within(rows, rest)
                    if rows.num_rows:
                        writer.write(rows, digest_of(rows))
                        kept += rows.num_rows
                if kept:
                    (self._done if trades else self._done_aside).append(writer.close())
            except BaseException:
                writer.abandon()
                raise
            if not kept:
                writer.abandon()

    def finished(self) -> tuple[tuple[NewFile, ...], tuple[NewFile, ...]]:
        """The files so far, durable: those of the trades and those of the quarantine."""
        while self._open:
            self._close(next(iter(self._open)))
        if self._aside is not None:
            self._done_aside.append(self._aside.close())
            self._aside = None
        files = tuple(self._done), tuple(self._done_aside)
        self._done, self._done_aside = [], []
        self._last_rows.clear()
        self.rows = self.misfits = 0
        return files

    def _writer(self, month: str) -> FileWriter:
        writer = self._open.get(month)
        if writer is not None and writer.size_bytes >= self._file_bytes:
            self._close(month)
            writer = None
        if writer is None:
            if len(self._open) >= _OPEN_MONTHS:
                self._close(next(iter(self._open)))
            partition = {**self._product, "month": month}
            writer = self._open[month] = FileWriter(self._tables.trades, partition, ROW_SCHEMA)
        self._open.move_to_end(month)
        return writer

    def _close(self, month: str) -> None:
        self._done.append(self._open[month].close())
        del self._open[month]
