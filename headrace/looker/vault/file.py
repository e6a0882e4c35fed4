"""The file of a vault: made whole, recognised, migrated, read by many, written by one at a time.

Writers of this process queue for one connection, and processes wait for a `flock` on a file
beside the vault; inside stands a short `BEGIN IMMEDIATE`. SQLite's own lock alone would do, but it
sleeps for up to 100 ms and tries again, which is slow with dozens of writers (docs/adr/0006).
Readers have a connection per thread and, with write-ahead logging, wait for no writer.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import uuid4

from headrace import locks
from headrace.looker.exceptions import (
    VaultBusy,
    VaultDamaged,
    VaultForeign,
    VaultMissing,
    VaultTooNew,
    VaultUnusable,
)
from headrace.looker.vault import schema
from headrace.paths import publish_new, real_path

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
        migrations: Sequence[schema.Step] = schema.MIGRATIONS,
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
                db.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
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
            if application_id != schema.APPLICATION_ID:
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
        # Mode rw: a file deleted just now must not come back empty, without a schema.
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

    def _translated(
        self, error: sqlite3.Error
    ) -> VaultDamaged | VaultForeign | VaultBusy | VaultUnusable:
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
            return file.read(72)[68:] == schema.APPLICATION_ID.to_bytes(4, "big")
