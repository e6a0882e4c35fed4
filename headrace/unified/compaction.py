"""Few large files in place of many small ones, sorted by trade_id, with the same rows.

Each commit adds files to the months that it concerns. A month that is over becomes one file (or
several of the full size). In the newest month of a product, where the next commit follows soon,
files are merged by size: eight of about one size become one, so that a row is rewritten a few times
in all. The quarantine has no months and is treated as a newest one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from headrace.lake.digest import ContentDigest
from headrace.unified.commits import Change, FileChanges, Tables
from headrace.unified.exceptions import RowsDiffer, TableDamaged
from headrace.unified.files import FileWriter, NewFile, footer_of
from headrace.unified.rows import QUARANTINE_ROW_SCHEMA, ROW_SCHEMA, digest_of
from headrace.unified.table import Snapshot, UnifiedFile, UnifiedTable
from headrace.unified.taken_ids import Taken, app_id

#: Files of about one size that make it worth to merge them.
MIN_FILES = 8
#: A file of this share of the full size is not touched any more.
_FULL_SHARE = 0.75
#: Rows of the smallest size, and by what factor each size is larger than the one before.
_SMALLEST_ROWS, _FACTOR = 250, 8
#: Ids that are sorted at once: at most so many rows are in memory.
_WINDOW_IDS = 512_000


def due(files: Sequence[UnifiedFile], *, newest: bool, file_bytes: int) -> list[UnifiedFile]:
    """Which files of one partition to merge now; none if fewer than two would be.

    Args:
        files: all of the partition.
        newest: more is to be expected of the partition.
        file_bytes: the full size of a file.
    """
    small = [file for file in files if file.size_bytes < file_bytes * _FULL_SHARE]
    if not newest:
        return small if len(small) > 1 else []
    by_size = sorted(small, key=_size)
    counts = {size: len(list(group)) for size, group in groupby(by_size, key=_size)}
    crowded = next((size for size, count in counts.items() if count >= MIN_FILES), None)
    return [file for file in small if crowded is not None and _size(file) <= crowded]


def compaction(
    tables: Tables, exchange: str, symbol: str, *, file_bytes: int, all_months: bool = False
) -> Change | None:
    """Rewrite what is due of one product; None if nothing is.

    Args:
        tables: both tables.
        exchange, symbol: the product.
        file_bytes: the full size of a file.
        all_months: treat the newest month as the others.

    Raises:
        RowsDiffer: the new files do not hold the rows of the old ones; nothing is committed.
        TableDamaged, TableTooNew, TableUnreachable, StoreError: as they say.
    """
    trades = tables.snapshot(tables.trades)
    quarantine = tables.snapshot(tables.quarantine)
    files = trades.files(exchange=exchange, symbol=symbol)
    newest = max((file.month or "" for file in files), default="")
    old: list[list[UnifiedFile]] = []
    for month, of_month in groupby(files, key=lambda file: file.month):
        is_newest = month == newest and not all_months
        old.append(due(list(of_month), newest=is_newest, file_bytes=file_bytes))
    aside = quarantine.files(exchange=exchange, symbol=symbol)
    old_aside = due(aside, newest=not all_months, file_bytes=file_bytes)
    if not any(old) and not old_aside:
        return None
    made: list[tuple[UnifiedTable, NewFile]] = []
    try:
        for group in filter(None, old):
            made += [(tables.trades, f) for f in _merged(trades, group, ROW_SCHEMA, file_bytes)]
        if old_aside:
            merged = _merged(quarantine, old_aside, QUARANTINE_ROW_SCHEMA, file_bytes)
            made += [(tables.quarantine, file) for file in merged]
    except BaseException:
        for table, file in made:
            table.store.delete(f"{table.root}/{file.path}")
        raise
    return Change(
        exchange,
        symbol,
        Taken.of(trades.transactions, exchange, symbol),
        quarantine.transactions.get(app_id(exchange, symbol), 0),
        FileChanges(
            tuple(file for table, file in made if table is tables.trades),
            tuple(file for group in old for file in group),
        ),
        FileChanges(
            tuple(file for table, file in made if table is tables.quarantine), tuple(old_aside)
        ),
        rearranges=True,
    )


def _merged(
    snapshot: Snapshot, files: Sequence[UnifiedFile], schema: pa.Schema, file_bytes: int
) -> list[NewFile]:
    """New files of one partition with the rows of the old ones, compared with them."""
    made: list[NewFile] = []
    writer: FileWriter | None = None
    try:
        for rows in _sorted_rows(snapshot, files):
            if writer is not None and writer.size_bytes >= file_bytes:
                made.append(writer.close())
                writer = None
            if writer is None:
                writer = FileWriter(snapshot.table, files[0].partition, schema)
            writer.write(rows, digest_of(rows))
        if writer is not None:
            made.append(writer.close())
            writer = None
        _compare(snapshot, files, made)
    except BaseException:
        if writer is not None:
            writer.abandon()
        for file in made:
            snapshot.table.store.delete(f"{snapshot.table.root}/{file.path}")
        raise
    return made


def _sorted_rows(snapshot: Snapshot, files: Sequence[UnifiedFile]) -> Iterator[pa.Table]:
    """The rows of files whose ids may overlap, by rising id."""
    left = sorted(files, key=lambda file: file.first_id)
    lo = left[0].first_id
    while left:
        lo = max(lo, min(file.first_id for file in left))
        hi = lo + _WINDOW_IDS - 1
        tables = [
            rows
            for file in left
            if file.first_id <= hi
            for rows in snapshot.read(file.path, lo, hi)
        ]
        left = [file for file in left if file.last_id > hi]
        lo = hi + 1
        if not tables:
            continue
        rows = pa.concat_tables(tables).sort_by("trade_id").combine_chunks()
        ids = rows["trade_id"].chunk(0)
        steps = pc.subtract(ids[1:], ids[:-1])
        if len(steps) and pc.min(steps).as_py() < 1:
            doubled = ids[pc.index(pc.less(steps, 1), True).as_py()].as_py()
            raise TableDamaged(
                snapshot.table.uri, f"trade {doubled} of {files[0].symbol} is in it twice"
            )
        yield rows


def _compare(snapshot: Snapshot, old: Sequence[UnifiedFile], made: Sequence[NewFile]) -> None:
    """Hold what the old files say of themselves against the rows that the new ones hold.

    Raises:
        RowsDiffer: they differ.
    """
    rows, digest = 0, ContentDigest()
    for file in old:
        footer = footer_of(snapshot.footer(file.path))
        if footer is None:
            raise TableDamaged(snapshot.table.uri, f"its file {file.path} is none of Headrace's")
        rows += footer.rows
        digest += ContentDigest.parse(footer.digest)
    found_rows, found = 0, ContentDigest()
    for new in made:
        for table in snapshot.read(new.path):
            found_rows += table.num_rows
            found += digest_of(table)
    if (rows, digest) != (found_rows, found):
        partition = "/".join(old[0].partition.values())
        raise RowsDiffer(
            f"compacting {partition} of {snapshot.table.uri}",
            expected=f"{rows} rows, digest {digest}",
            found=f"{found_rows} rows, digest {found}",
            hint="`headrace transform --rebuild` makes the table again from the raw layer",
        )


def _size(file: UnifiedFile) -> int:
    """Which of the sizes a file has: 0 for the smallest."""
    return max(0, math.floor(math.log(max(file.rows, 1) / _SMALLEST_ROWS, _FACTOR)) + 1)


def vacuum(tables: Tables, *, grace_h: float) -> int:
    """Remove files that no version of the last `grace_h` hours names; how many there were.

    Also what a killed run wrote and did not commit. A reader that opened the table less than the
    grace time ago finds all files that it knows of.
    """
    return sum(
        len(tables.snapshot(table).vacuum(grace_h)) for table in (tables.trades, tables.quarantine)
    )
