"""One process's copy of a quota's tables, in memory, and its changes as bytes.

A change is the rows that a transaction wrote, as they are after it; triggers note which. So changes
applied in one order give the same tables everywhere, whatever the transactions read or computed.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from headrace.quota.breaker_file import BREAKER_TABLES
from headrace.quota.exceptions import QuotaUnavailable
from headrace.quota.register import HOSTS, KEYED, REFUSALS, TABLES

_SCHEMA = ";\n".join((TABLES, REFUSALS, KEYED, HOSTS, BREAKER_TABLES))
_CHANGED = "CREATE TEMP TABLE changed (t INTEGER, r INTEGER, PRIMARY KEY (t, r)) WITHOUT ROWID"
#: Distinguishes copies of other versions from ours.
_FORMAT = hashlib.blake2b(_SCHEMA.encode(), digest_size=4).hexdigest()

_Row = list[Any]


class _Table:
    """How rows of one table are read and written. In a change, `-1 - its number` drops a row."""

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        info = connection.execute(f"PRAGMA table_info({name})").fetchall()
        columns = [column for _, column, *_ in info]
        key = next((one for _, one, kind, *_, is_key in info if is_key and kind == "INTEGER"), None)
        if key is None:
            columns = ["rowid", *columns]
        self.name = name
        listed = ", ".join(columns)
        self.all = f"SELECT {listed} FROM {name} ORDER BY rowid"
        self.one = f"SELECT {listed} FROM {name} WHERE rowid = ?"
        marks = ", ".join("?" for _ in columns)
        self.put = f"INSERT OR REPLACE INTO {name} ({listed}) VALUES ({marks})"
        self.drop = f"DELETE FROM {name} WHERE rowid = ?"

    def triggers(self, number: int) -> list[str]:
        """What notes the rows that are written."""
        return [
            f"CREATE TEMP TRIGGER {self.name}_{verb} AFTER {verb} ON main.{self.name} BEGIN "
            f"INSERT OR IGNORE INTO changed VALUES ({number}, {row}.rowid); END"
            for verb, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD"))
        ]


class Replica:
    """Tables in memory. Use it from one thread at a time.

    Args:
        where: for messages.
        content: of another copy; none for empty tables.
        changes: made since on it.

    Raises:
        QuotaUnavailable: another version of Headrace wrote them.
    """

    def __init__(self, where: str, content: bytes = b"", changes: Sequence[bytes] = ()) -> None:
        self._where = where
        self.connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        for statement in _SCHEMA.split(";\n"):
            self.connection.execute(statement)
        names = self.connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' "
            "ORDER BY name"
        )
        self._tables = [_Table(self.connection, name) for (name,) in names.fetchall()]
        self.connection.execute(_CHANGED)
        for number, table in enumerate(self._tables):
            for trigger in table.triggers(number):
                self.connection.execute(trigger)
        if content:
            self._load(content)
        self.apply(changes)

    def begin(self) -> None:
        """Begin a transaction."""
        self.connection.execute("BEGIN")

    def commit(self) -> None:
        """Keep what it wrote."""
        self.connection.execute("DELETE FROM changed")
        self.connection.execute("COMMIT")

    def rollback(self) -> None:
        """Undo what it wrote."""
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def change(self) -> bytes:
        """What the transaction has written so far; empty for nothing."""
        rows: list[_Row] = []
        for number, rowid in self.connection.execute("SELECT t, r FROM changed").fetchall():
            row = self.connection.execute(self._tables[number].one, (rowid,)).fetchone()
            rows.append([-1 - number, rowid] if row is None else [number, *row])
        return msgspec.msgpack.encode([_FORMAT, rows]) if rows else b""

    def apply(self, changes: Sequence[bytes]) -> None:
        """Take over changes of others, in their order."""
        if not changes:
            return
        self.begin()
        try:
            for change in changes:
                for number, *row in self._read(change):
                    gone = number < 0
                    table = self._tables[-1 - number if gone else number]
                    self.connection.execute(table.drop if gone else table.put, row)
        except BaseException:
            self.rollback()
            raise
        self.commit()

    def content(self) -> bytes:
        """All rows."""
        rows = [
            [number, *row]
            for number, table in enumerate(self._tables)
            for row in self.connection.execute(table.all)
        ]
        return msgspec.msgpack.encode([_FORMAT, rows])

    def rows(self) -> int:
        """How many rows there are in the table that grows."""
        row: tuple[int] = self.connection.execute("SELECT count(*) FROM slots").fetchone()
        return row[0]

    def close(self) -> None:
        """Free the memory."""
        self.connection.close()

    def _load(self, content: bytes) -> None:
        self.begin()
        for number, *row in self._read(content):
            self.connection.execute(self._tables[number].put, row)
        self.commit()

    def _read(self, data: bytes) -> list[_Row]:
        """The rows of a change or of a content.

        Raises:
            QuotaUnavailable: another version wrote it.
        """
        try:
            written_by, rows = msgspec.msgpack.decode(data)
            if written_by == _FORMAT:
                found: list[_Row] = rows
                return found
        except (msgspec.DecodeError, ValueError, TypeError) as error:
            raise QuotaUnavailable(
                self._where, f"it holds what is none of ours ({error})", hint=_FOREIGN
            ) from error
        raise QuotaUnavailable(self._where, "another version of headrace wrote it", hint=_FOREIGN)


_FOREIGN = (
    "Use the same version of headrace on all machines; `headrace quota drop NAME` removes what is "
    "there while no run is under way"
)
