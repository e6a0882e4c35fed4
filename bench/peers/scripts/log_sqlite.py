"""A log as an SQLite table. Usage: log_sqlite.py STREAM DATABASE BATCH."""

from __future__ import annotations

import sqlite3
import struct
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

_ROUTE = struct.Struct("<I12xIQ")
_LENGTH_BYTES = 4


def frames(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Symbol, sequence and bytes of each record of a stream."""
    with path.open("rb") as stream:
        stream.read(8)
        while head := stream.read(_ROUTE.size):
            length, symbol, seq = _ROUTE.unpack(head)
            yield symbol, seq, head + stream.read(_LENGTH_BYTES + length - _ROUTE.size)


def main(stream: Path, path: Path, batch: int) -> None:
    """Insert what is not there."""
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute(
        "CREATE TABLE IF NOT EXISTS log (symbol INTEGER, seq INTEGER, frame BLOB, "
        "PRIMARY KEY (symbol, seq)) WITHOUT ROWID"
    )
    records = frames(stream)
    while rows := list(islice(records, batch)):
        with database:
            database.executemany("INSERT OR IGNORE INTO log VALUES (?, ?, ?)", rows)
    database.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
