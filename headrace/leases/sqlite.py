"""Leases of one machine, in one SQLite file.

Every call opens the file, does one short thing and closes it: nothing is left open for a fork to
inherit or a reader to trip over, at about a millisecond per call. Write-ahead logging was chosen
because a reader with an open transaction cannot hold up a renewal then, which it can with a
rollback journal; it was also the fastest of the modes measured with eight processes.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import uuid4

from pydantic import ValidationError

from headrace.errors import CHECK_STATE_FOLDER
from headrace.leases.exceptions import DamagedLeases, LeaseStoreUnavailable, NewerLeases
from headrace.leases.model import Grant, Holder, Row
from headrace.leases.store import LeaseStore
from headrace.leases.this_machine import THIS_MACHINE, Machine
from headrace.locks import sqlite_holders
from headrace.paths import publish_new

FILE_NAME = "leases.sqlite"

_APPLICATION_ID = 0x48524C53  # "HRLS": marks our file among SQLite files
_SCHEMA_VERSION = 1
_SCHEMA = f"""
PRAGMA journal_mode = WAL;
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_SCHEMA_VERSION};
CREATE TABLE lease (
    name   TEXT PRIMARY KEY,
    token  INTEGER NOT NULL,
    stamp  TEXT NOT NULL,
    holder TEXT
) STRICT;
"""


class SqliteLeases(LeaseStore):
    """`LeaseStore` in `folder/leases.sqlite`, for processes of one machine.

    The file appears with the first lease, complete, readable by its owner alone. A damaged one is
    refused and never replaced: replacing it would let two runs work at once.

    Args:
        folder: a folder on a local disk (not on a network share); made with mode 0700 if missing.
        busy_timeout_s: how long to wait for another process's write.
        machine: clocks and processes to judge by.
    """

    one_machine = True

    def __init__(
        self, folder: Path, *, busy_timeout_s: float = 10.0, machine: Machine = THIS_MACHINE
    ) -> None:
        super().__init__(machine=machine)
        self.path = Path(folder).absolute() / FILE_NAME
        self._busy_timeout_s = busy_timeout_s

    @property
    def where(self) -> str:
        """Path of the file."""
        return str(self.path)

    def acquire(self, name: str, *, run_id: str, ttl_s: float, above: int = 0) -> Grant:
        """As `LeaseStore.acquire`, after a look at the whole file.

        Raises:
            DamagedLeases, NewerLeases: the file is not what we wrote; it was left as it is.
        """
        if self.path.exists():
            with self._opened() as db:
                found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise self._damaged(found)
        return super().acquire(name, run_id=run_id, ttl_s=ttl_s, above=above)

    def _read(self, name: str) -> Row | None:
        return self._read_many([name])[0]

    def _read_many(self, names: Iterable[str]) -> list[Row | None]:
        names = list(names)
        if not self.path.exists():
            return [None] * len(names)
        with self._opened() as db:
            select = "SELECT name, token, stamp, holder FROM lease WHERE name = ?"
            found = [db.execute(select, (name,)).fetchone() for name in names]
            return [self._parsed(columns) if columns else None for columns in found]

    def _read_all(self) -> Iterable[Row]:
        if not self.path.exists():
            return []
        with self._opened() as db:
            found = db.execute("SELECT name, token, stamp, holder FROM lease").fetchall()
            return [self._parsed(columns) for columns in found]

    def _swap(self, seen: Row | None, new: Row) -> bool:
        if not self.path.exists():
            self._create()
        holder = new.holder.model_dump_json() if new.holder else None
        with self._opened() as db:
            # A deferred transaction that reads and then writes fails at once when another process
            # wrote in between, whatever the busy timeout says.
            db.execute("BEGIN IMMEDIATE")
            found = db.execute("SELECT stamp FROM lease WHERE name = ?", (new.name,)).fetchone()
            if (found[0] if found else None) != (seen.stamp if seen else None):
                return False
            db.execute(
                "REPLACE INTO lease (name, token, stamp, holder) VALUES (?, ?, ?, ?)",
                (new.name, new.token, new.stamp, holder),
            )
            db.execute("COMMIT")
            return True

    def _remove(self, seen: Row) -> None:
        with self._opened() as db:
            db.execute("DELETE FROM lease WHERE name = ? AND stamp = ?", (seen.name, seen.stamp))

    def _create(self) -> None:
        """Let the file appear whole: half-made, it would look like a damaged one."""
        draft = self.path.with_name(f".{FILE_NAME}.{uuid4().hex}")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            try:
                with closing(sqlite3.connect(draft, isolation_level=None)) as db:
                    db.executescript(_SCHEMA)
                publish_new(draft, self.path)  # unless another process was first
            finally:
                for leftover in draft.parent.glob(f"{draft.name}*"):
                    leftover.unlink()
        except OSError as error:
            reason = error.strerror or str(error)
            raise LeaseStoreUnavailable(self.where, reason, hint=CHECK_STATE_FOLDER) from error
        except sqlite3.OperationalError as error:
            raise LeaseStoreUnavailable(self.where, str(error)) from error

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """A connection to an existing, recognised file; closing it rolls back what is open."""
        try:
            with closing(self._connected()) as db:
                yield db
        except sqlite3.DatabaseError as error:
            raise self._translated(error) from error

    def _connected(self) -> sqlite3.Connection:
        # Mode rw: a file deleted just now must not come back empty, without a schema.
        db = sqlite3.connect(
            f"{self.path.as_uri()}?mode=rw",
            uri=True,
            timeout=self._busy_timeout_s,
            isolation_level=None,
        )
        try:
            # A loss of power may take back the last writes. Their holders ended with it, and the
            # next token comes from the clock as well: nothing falls.
            db.execute("PRAGMA synchronous = NORMAL")
            application_id = db.execute("PRAGMA application_id").fetchone()[0]
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if application_id != _APPLICATION_ID or version < 1:
                raise self._damaged("it is empty or not a file of leases")
            if version > _SCHEMA_VERSION:
                raise NewerLeases(self.where, version, _SCHEMA_VERSION)
        except BaseException:
            db.close()
            raise
        return db

    def _parsed(self, columns: tuple[str, int, str, str | None]) -> Row:
        name, token, stamp, text = columns
        try:
            holder = Holder.model_validate_json(text) if text is not None else None
        except ValidationError as error:
            reason = f"the holder of {name} does not read ({error.error_count()} errors)"
            raise self._damaged(reason) from error
        return Row(name=name, token=token, stamp=stamp, holder=holder)

    def _translated(self, error: sqlite3.DatabaseError) -> DamagedLeases | LeaseStoreUnavailable:
        # Extended codes carry the primary one in their low byte.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
            return self._damaged(str(error))
        if (holders := sqlite_holders(self.path, error)) is not None:
            return LeaseStoreUnavailable(self.where, f"{error} by {holders}", hint=holders.way_out)
        hint = {
            sqlite3.SQLITE_FULL: "Free some space on that disk and start again",
            sqlite3.SQLITE_READONLY: CHECK_STATE_FOLDER,
            sqlite3.SQLITE_CANTOPEN: CHECK_STATE_FOLDER,
        }.get(code, "")
        return LeaseStoreUnavailable(self.where, str(error), hint=hint)

    def _damaged(self, reason: str) -> DamagedLeases:
        return DamagedLeases(
            self.where,
            reason,
            hint="Make sure that no run is working, then move this file (with its -wal and -shm) "
            "away; the next run makes a new one, and its tokens go on rising",
        )
