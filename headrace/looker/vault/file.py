"""The file of a vault: its tables, made whole, recognised, migrated; many readers, one writer.

Writers of this process queue for one connection, and processes wait for a `flock` on a file
beside the vault; inside stands a short `BEGIN IMMEDIATE`. SQLite's own lock alone would do, but it
sleeps for up to 100 ms and tries again, which is slow with dozens of writers (docs/adr/0006).
Readers have a connection per thread and, with write-ahead logging, wait for no writer.

Times are text, UTC, as in 2018-02-05T20:33:54.000000Z, so that they sort and read well. Bodies
stand apart from the rows that change with every run: a run in which nothing changed rewrites short
rows only.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from headrace import locks
from headrace.errors import HeadraceError
from headrace.looker.exceptions import (
    VaultBusy,
    VaultDamaged,
    VaultForeign,
    VaultMissing,
    VaultTooNew,
    VaultUnusable,
)
from headrace.paths import publish_new, real_path

APPLICATION_ID = 0x48524C56  # "HRLV": marks our file among any other SQLite file

_V1 = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE session (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,               -- extract, retry, pack, restore, promote
    run_id TEXT NOT NULL,
    parameters TEXT NOT NULL,         -- JSON
    started_at TEXT NOT NULL,
    ended_at TEXT,
    status TEXT NOT NULL,             -- running, done, partial, failed, interrupted
    summary TEXT NOT NULL             -- JSON
) STRICT;
CREATE TABLE item (
    key INTEGER PRIMARY KEY,
    type TEXT NOT NULL,
    id TEXT NOT NULL,                 -- text, whatever the server wrote
    name TEXT, owner TEXT, folder TEXT,
    created_at TEXT, updated_at TEXT, -- what the server says
    deletion TEXT,                    -- trashed (the body says so), gone (proven), or null
    deleted_at TEXT,
    first_session INTEGER NOT NULL,
    seen_session INTEGER NOT NULL,    -- the last one in which the server showed it
    seen_at TEXT NOT NULL,
    version INTEGER NOT NULL,         -- the current one
    hash BLOB NOT NULL,               -- SHA-256 of the current body
    UNIQUE (type, id)
) STRICT;
CREATE TABLE body (
    item INTEGER NOT NULL,
    version INTEGER NOT NULL,         -- 1, 2, ...
    session INTEGER NOT NULL,         -- the one that stored it
    stored_at TEXT NOT NULL,
    origin TEXT NOT NULL,             -- server, pack
    hash BLOB NOT NULL,               -- SHA-256 of the body as sent
    size_bytes INTEGER NOT NULL,      -- of the body as sent
    codec INTEGER NOT NULL,           -- see headrace.looker.vault.contents
    body BLOB NOT NULL,
    UNIQUE (item, version)
) STRICT;
CREATE INDEX body_session ON body (session);
CREATE TABLE event (                  -- deleted and returned, with the evidence
    item INTEGER NOT NULL,
    session INTEGER NOT NULL,
    kind TEXT NOT NULL,
    at TEXT NOT NULL,
    evidence TEXT NOT NULL
) STRICT;
CREATE INDEX event_item ON event (item);
CREATE TABLE listing (
    session INTEGER NOT NULL,
    type TEXT NOT NULL,
    name TEXT NOT NULL,
    scope TEXT NOT NULL,              -- empty: everything; else what it was narrowed to
    complete INTEGER NOT NULL,        -- without one failed page, to its end
    items INTEGER NOT NULL,
    ended_at TEXT NOT NULL,
    PRIMARY KEY (session, type, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE page (                   -- what a killed run need not ask for again
    session INTEGER NOT NULL,
    type TEXT NOT NULL,
    listing TEXT NOT NULL,
    start INTEGER NOT NULL,           -- the offset
    size INTEGER NOT NULL,            -- the limit
    items INTEGER NOT NULL,           -- how many came
    first TEXT NOT NULL DEFAULT '',   -- ids at its ends: neighbours overlap in one
    last TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (session, type, listing, start, size)
) STRICT, WITHOUT ROWID;
CREATE TABLE todo (                   -- listed, body not fetched yet
    session INTEGER NOT NULL,
    type TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (session, type, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE failure (
    type TEXT NOT NULL,
    kind TEXT NOT NULL,               -- item, page
    key TEXT NOT NULL,                -- the id; of a page listing:start+size
    status INTEGER,                   -- HTTP, null without an answer
    message TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    session INTEGER NOT NULL,         -- the last one that failed
    first_at TEXT NOT NULL,
    last_at TEXT NOT NULL,
    resolved_at TEXT,
    PRIMARY KEY (type, kind, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX failure_open ON failure (type, kind, key) WHERE resolved_at IS NULL;
"""

_V2 = """
CREATE TABLE restored (
    target TEXT NOT NULL,             -- base URL of the Looker that it went to
    type TEXT NOT NULL,
    id TEXT NOT NULL,                 -- in the vault
    new_id TEXT NOT NULL,             -- there
    hash BLOB NOT NULL,               -- of the body that was restored
    complete INTEGER NOT NULL,        -- 0: made, its parts not yet
    session INTEGER NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (target, type, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX restored_new ON restored (target, type, new_id);
CREATE TABLE restore_intent (         -- about to be made; a kill may have come after
    target TEXT NOT NULL,
    type TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (target, type, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE restore_failure (
    target TEXT NOT NULL,
    type TEXT NOT NULL,
    id TEXT NOT NULL,
    status INTEGER,
    message TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    session INTEGER NOT NULL,
    first_at TEXT NOT NULL,
    last_at TEXT NOT NULL,
    resolved_at TEXT,
    PRIMARY KEY (target, type, id)
) STRICT, WITHOUT ROWID;
"""

Step = Callable[[sqlite3.Connection], None]


def _script(text: str) -> Step:
    def run(db: sqlite3.Connection) -> None:
        # Not executescript, which commits what is open first.
        for statement in text.split(";\n"):
            if statement.strip():
                db.execute(statement)

    return run


#: Step n leads from version n to n + 1; version 0 is an empty file.
MIGRATIONS: tuple[Step, ...] = (_script(_V1), _script(_V2))

#: How long another process is waited for, be it for the lock or for SQLite's own.
BUSY_TIMEOUT_S = 60.0
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_JOURNAL_LIMIT_BYTES = 64 << 20


class _Reader:
    """A connection that is closed with the thread that it belongs to."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self._pid = os.getpid()

    def __del__(self) -> None:
        if self._pid == os.getpid():  # not the child's to close
            self.db.close()


class VaultFile:
    """One SQLite file with its lock. Safe for threads; a forked child opens its own connections.

    Args:
        path: the file; `<path>.lock` stands beside it.
        create: make the vault if there is none (the folder too, for the user alone).
        check: look at the whole file for damage first, at about 1 GB/s.
        migrations: the steps to the present version.

    Raises:
        VaultMissing, VaultUnusable, VaultForeign, VaultDamaged, VaultTooNew, VaultBusy.
    """

    def __init__(
        self,
        path: Path,
        *,
        create: bool = False,
        check: bool = True,
        migrations: Sequence[Step] = MIGRATIONS,
    ) -> None:
        self.path = real_path(path)
        self._migrations = migrations
        self._start()
        with self._explained():
            if not self.path.exists():
                if not create:
                    raise VaultMissing(self.path)
                self._create()
            elif not self.path.is_file():
                raise VaultUnusable(self.path, "it is not a file")
            self._recognise(check=check)
            self._migrate()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._turn = threading.Lock()
        self._local = threading.local()
        self._writer: sqlite3.Connection | None = None
        self._readers: weakref.WeakSet[_Reader] = weakref.WeakSet()
        self._lock_fd = -1

    # -- reading --------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """This thread's connection, on which one snapshot is seen until the block ends."""
        with self._explained():
            self._notice_fork()
            reader: _Reader | None = getattr(self._local, "reader", None)
            if reader is None:
                # Closed with its thread, or by `close` from whatever thread that runs in.
                reader = self._local.reader = _Reader(self._connected(query_only=True))
                self._readers.add(reader)
            db = reader.db
            if db.in_transaction:  # a reading within a reading sees the same
                yield db
                return
            db.execute("BEGIN")
            try:
                yield db
            finally:
                db.execute("COMMIT")

    def query(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        """The rows of one `SELECT`."""
        with self.reading() as db:
            return db.execute(sql, values).fetchall()

    def query_one(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """The first row of one `SELECT`, None if there is none."""
        with self.reading() as db:
            return db.execute(sql, values).fetchone()

    # -- writing --------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One short transaction, alone: committed at the end of the block, or not at all."""
        with self._explained():
            self._notice_fork()
            with self._turn, self._alone():
                if self._writer is None:
                    self._writer = self._connected()
                db = self._writer
                db.execute("BEGIN IMMEDIATE")
                try:
                    yield db
                    db.execute("COMMIT")
                except BaseException:
                    if db.in_transaction:
                        db.execute("ROLLBACK")
                    raise

    def execute(self, sql: str, values: Sequence[Any]) -> int:
        """One statement in a transaction of its own; the rows that it changed."""
        with self.writing() as db:
            return db.execute(sql, values).rowcount

    def make_durable(self) -> None:
        """What was committed before survives a loss of power as well, not only of the process.

        A commit alone does not wait for the disk. Call this before anything outside the vault,
        such as a checkpoint, says that something is in it.
        """
        with self._explained():
            for name in (self.path, self._beside("-wal")):
                if name.exists():
                    descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
                    try:
                        os.fsync(descriptor)
                    finally:
                        os.close(descriptor)

    def copy_to(self, target: Path) -> None:
        """A consistent copy as one file without companions, while others go on writing."""
        with self._explained(), self.reading() as db:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            with closing(sqlite3.connect(target, isolation_level=None)) as copy:
                db.backup(copy, pages=4096)
                copy.execute("PRAGMA journal_mode = DELETE")

    def close(self) -> None:
        """Close every connection; the next use opens new ones."""
        if self._pid != os.getpid():
            return
        with self._turn:
            for reader in list(self._readers):
                reader.db.close()
            if self._writer is not None:
                self._writer.close()
            if self._lock_fd >= 0:
                os.close(self._lock_fd)
        self._start()

    # -- the file -------------------------------------------------------------------------------

    def _create(self) -> None:
        """Let the file appear whole: half-made, it would look like a foreign one."""
        if self.path.parent.exists() and not self.path.parent.is_dir():
            raise VaultUnusable(self.path, f"{self.path.parent} is not a folder")
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self.path.with_name(f".{self.path.name}.{uuid4().hex}")
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            with closing(sqlite3.connect(draft, isolation_level=None)) as db:
                db.execute("PRAGMA page_size = 8192")
                db.execute("PRAGMA journal_mode = WAL")
                db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                db.execute("BEGIN IMMEDIATE")
                for step in self._migrations:
                    step(db)
                db.execute(f"PRAGMA user_version = {len(self._migrations)}")
                db.execute("COMMIT")
            publish_new(draft, self.path)  # unless another process was first
        finally:
            for leftover in draft.parent.glob(f"{draft.name}*"):
                leftover.unlink()

    def _recognise(self, *, check: bool) -> None:
        with closing(self._connected()) as db:
            application_id = db.execute("PRAGMA application_id").fetchone()[0]
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if application_id != APPLICATION_ID:
                empty = self.path.stat().st_size == 0
                raise VaultForeign(self.path, "it is empty" if empty else "it is something else's")
            if version < 1:
                raise VaultDamaged(self.path, "it has no schema")
            if version > len(self._migrations):
                raise VaultTooNew(self.path, version, len(self._migrations))
            if check:
                found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
                if found != "ok":
                    raise VaultDamaged(self.path, " ".join(found.split()))

    def _migrate(self) -> None:
        with self.reading() as db:
            version = db.execute("PRAGMA user_version").fetchone()[0]
        if version == len(self._migrations):
            return
        with self.writing() as db:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            for step in self._migrations[version:]:
                step(db)
            db.execute(f"PRAGMA user_version = {len(self._migrations)}")

    def _connected(self, *, query_only: bool = False) -> sqlite3.Connection:
        # Mode rw: a file deleted just now must not come back empty, without a
        db = sqlite3.connect(
            f"{self.path.as_uri()}?mode=rw",
            uri=True,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute(f"PRAGMA journal_size_limit = {_JOURNAL_LIMIT_BYTES}")
            db.execute(f"PRAGMA query_only = {int(query_only)}")
        except BaseException:
            db.close()
            raise
        return db

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes out.

        Raises:
            VaultBusy: another one kept the lock for longer than the limit.
        """
        if self._lock_fd < 0:
            lock = self._beside(".lock")
            self._lock_fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            locks.lock(self._lock_fd, self._beside(".lock"), limit_s=BUSY_TIMEOUT_S)
        except locks.LockTimeout as error:
            raise VaultBusy(self.path, error.message, hint=error.hint) from error
        try:
            yield
        finally:
            fcntl.flock(self._lock_fd, fcntl.LOCK_UN)

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)

    def _notice_fork(self) -> None:
        # SQLite's connections and the flock of the parent are not the child's to use.
        if self._pid != os.getpid():
            self._start()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what SQLite and the system say into errors that name the file and the way out."""
        try:
            yield
        except sqlite3.Error as error:
            if not hasattr(error, "sqlite_errorcode"):  # of the module: a mistake of ours
                raise
            raise self._translated(error) from error
        except OSError as error:
            raise VaultUnusable(self.path, error.strerror or str(error)) from error

    def _translated(self, error: sqlite3.Error) -> HeadraceError:
        # Extended codes carry the primary one in their low byte.
        code = error.sqlite_errorcode & 0xFF
        if code == sqlite3.SQLITE_NOTADB and not self._starts_as_ours():
            return VaultForeign(self.path, str(error))
        if code in _DAMAGE or code == sqlite3.SQLITE_ERROR:
            return VaultDamaged(self.path, str(error))
        if (holders := locks.sqlite_holders(self.path, error)) is not None:
            return VaultBusy(self.path, f"{error} by {holders}", hint=holders.way_out)
        return VaultUnusable(self.path, str(error))

    def _starts_as_ours(self) -> bool:
        """Whether the header still carries our number, 68 bytes in."""
        with self.path.open("rb") as file:
            found: bytes = file.read(72)[68:]
        return found == APPLICATION_ID.to_bytes(4, "big")
