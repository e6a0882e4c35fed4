"""A SQLite file that many processes change in short transactions.

SQLite's own lock is slow when a dozen processes want it (it sleeps for up to 100 ms and tries
again: waits of 0.8 to 1.5 s were measured). So a `flock` on a file beside it, which is tried again
after a fraction of a millisecond, stands in front of every transaction; it ends with its holder. A
holder that is stopped is waited for with a limit (see `headrace.locks`).

The lock file also stays when the database is gone: when the database is missing while the lock file
    is
there, it was deleted, and what it knew is unknown rather than nothing.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from headrace.errors import CHECK_STATE_FOLDER
from headrace.locks import LockTimeout, lock, sqlite_holders
from headrace.quota.exceptions import QuotaUnavailable

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

_COMPANIONS = ("", "-wal", "-shm")
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


#: How long SQLite's own lock, which only another program can hold, is waited for.
BUSY_TIMEOUT_S = 5.0
# Once a wait for the lock has timed out, the other threads of this process need not wait as long.
_NEXT_LIMIT_S = 0.2


class StateStore(Protocol):
    """State that many processes change in short transactions: a file, or a part of a ledger.

    Each raises `QuotaUnavailable` if it cannot be reached.
    """

    @property
    def takes(self) -> int:
        """How long a change has taken lately, in nanoseconds; 0 where that does not matter."""

    def change(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kw: P.kwargs
    ) -> T:
        """Run `work` as one transaction; possibly more than once, with one effect."""

    def look(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kw: P.kwargs
    ) -> T:
        """Run `work`, which only reads, between changes."""

    def peek(self, work: Callable[[sqlite3.Connection], T], *, lenient: bool = False) -> T:
        """Run `work`, which only reads, on what is at hand; a little out of date, if lenient."""

    def close(self) -> None:
        """End it."""


#: Takes possession of state just opened: with whether what it knew may be lost.
Found = Callable[[sqlite3.Connection, bool], None]


class Shareable(Protocol):
    """State that quota and breaker share on a server; see `headrace.quota.shared`."""

    def attach(self, found: Found) -> StateStore:
        """A part of it."""


def lock_of(path: Path) -> Path:
    """The lock file of a database."""
    return path.with_name(path.name + ".lock")


class StateFile:
    """One database file with its lock. Use it from one thread at a time.

    Args:
        path: the database; `<path>.lock` is made beside it. The folder is made with mode 0700,
            files with 0600.
        schema: statements that make the tables.
        version: the number of this schema.
        found: called in the transaction that opens the file, with whether what it knew is lost
            (it was damaged and set aside, or deleted, emptied or replaced from outside).

    Raises:
        QuotaUnavailable: the file cannot be made, read or written, or a newer version wrote it.
    """

    takes = 0

    def __init__(self, path: Path, *, schema: str, version: int, found: Found) -> None:
        self.path = path
        self._lock_path = lock_of(path)
        self._name, self._lock_name = os.fspath(path), os.fspath(self._lock_path)
        self._schema = schema
        self._version = version
        self._found = found
        self._make_folder()
        # No lock file: this is the first use, and there is nothing that could have been lost.
        self._known = self._there(self._lock_name)
        self._lock_fd = self._open_private(self._lock_path)
        self._inode: int | None = None
        self._limit_s: float | None = None
        try:
            self._lock(check=False)
            self._connect(lost=self._known and not self._there(self._name))
            self._known = True
        except BaseException:
            os.close(self._lock_fd)
            raise
        self._unlock()

    def change(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kw: P.kwargs
    ) -> T:
        """Run `work` as one transaction; once more on a new file if this one proves damaged."""
        self._lock()
        try:
            try:
                return self._transact(work, *args, **kw)
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                self._set_aside(error)
                self._connect(lost=True)
                return self._transact(work, *args, **kw)
        except sqlite3.Error as error:
            raise self._unavailable(error) from error
        finally:
            self._unlock()

    def look(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kw: P.kwargs
    ) -> T:
        """Run `work`, which only reads, while no process is in the middle of a change.

        Once more on a new file, as `change`.
        """
        self._lock()
        try:
            try:
                return work(self._connection, *args, **kw)
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                self._set_aside(error)
                self._connect(lost=True)
                return work(self._connection, *args, **kw)
        except sqlite3.Error as error:
            raise self._unavailable(error) from error
        finally:
            self._unlock()

    def peek(self, work: Callable[[sqlite3.Connection], T], *, lenient: bool = False) -> T:
        """Run `work`, which only reads, without waiting for the lock."""
        del lenient  # a file is always at hand
        try:
            if _inode(self._name) == self._inode:
                return work(self._connection)
        except sqlite3.Error as error:
            if not _is_damage(error):
                raise self._unavailable(error) from error
        except OSError as error:
            raise self._unavailable(error) from error
        return self.look(work)

    def close(self) -> None:
        """Close the connection and the lock file; nothing works after that."""
        self._connection.close()
        # The number may soon be another file's, which a late caller must neither lock nor close.
        fd, self._lock_fd = self._lock_fd, -1
        os.close(fd)

    # -- the lock -------------------------------------------------------------------------------

    def _lock(self, *, check: bool = True) -> None:
        """Take the lock, and make sure that lock and database are what their paths name."""
        if self._lock_fd < 0:
            raise QuotaUnavailable(self.path, "this process has closed it already")
        try:
            lock(self._lock_fd, self._lock_path, limit_s=self._limit_s)
            self._limit_s = None
            while _inode(self._lock_name) != os.fstat(self._lock_fd).st_ino:
                self._make_folder()
                fresh = self._open_private(self._lock_path)
                os.close(self._lock_fd)
                self._lock_fd = fresh
                lock(fresh, self._lock_path, limit_s=self._limit_s)
            inode = _inode(self._name)
        except LockTimeout as error:
            self._limit_s = _NEXT_LIMIT_S
            raise QuotaUnavailable(self.path, error.message, hint=error.hint) from error
        except OSError as error:
            self._unlock()
            raise self._unavailable(error) from error
        if check and inode != self._inode:
            try:
                self._connection.close()
                self._connect(lost=inode is None)
            except BaseException:
                self._unlock()
                raise

    def _unlock(self) -> None:
        fcntl.flock(self._lock_fd, fcntl.LOCK_UN)

    # -- the database ---------------------------------------------------------------------------

    def _transact(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kw: P.kwargs
    ) -> T:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            result = work(connection, *args, **kw)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return result

    def _connect(self, *, lost: bool) -> None:
        """Open the database or create it; set a damaged one aside first. Needs the lock."""
        if lost:
            log.warning("%s was deleted while in use; it is created again", self.path)
        try:
            try:
                self._prepare(lost=lost)
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                self._set_aside(error)
                self._prepare(lost=True)
            self._inode = _inode(self._name)
        except (OSError, sqlite3.Error) as error:
            raise self._unavailable(error) from error

    def _prepare(self, *, lost: bool) -> None:
        os.close(self._open_private(self.path))
        self._connection = sqlite3.connect(
            self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        # WAL survives a kill at any moment. No fsync: after a power cut there is a new boot, and
        # what an older boot wrote is not used.
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = OFF")
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if version > self._version:
            self._connection.close()
            raise QuotaUnavailable(
                self.path,
                f"it has version {version}, this program knows up to {self._version}",
                hint="Use the newer headrace, or move the file away",
            )
        self._transact(self._make_ready, version, lost)

    def _make_ready(self, connection: sqlite3.Connection, version: int, lost: bool) -> None:
        if version == 0:
            if self._known and not lost:
                log.warning("%s was emptied or replaced; it is created again", self.path)
                lost = True
            for statement in self._schema.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {self._version}")
        self._found(connection, lost)

    def _set_aside(self, error: sqlite3.DatabaseError) -> None:
        self._connection.close()
        mark = f".damaged-{time.time_ns() // 1_000_000_000}"  # a name for people, no logic
        for suffix in _COMPANIONS:
            part = self.path.with_name(self.path.name + suffix)
            try:
                part.rename(part.with_name(part.name + mark))
            except FileNotFoundError:
                continue
            except OSError as problem:
                raise self._unavailable(problem) from error
        log.warning("%s is damaged (%s); it was set aside as *%s", self.path, error, mark)

    # -- files ----------------------------------------------------------------------------------

    def _make_folder(self) -> None:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise self._unavailable(error) from error

    def _open_private(self, path: Path) -> int:
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._unavailable(error) from error

    def _there(self, path: str) -> bool:
        try:
            return _inode(path) is not None
        except OSError as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: OSError | sqlite3.Error) -> QuotaUnavailable:
        if (holders := sqlite_holders(self.path, error)) is not None:
            return QuotaUnavailable(self.path, f"{error} by {holders}", hint=holders.way_out)
        problem = error.strerror if isinstance(error, OSError) else str(error)
        return QuotaUnavailable(self.path, problem or str(error), hint=CHECK_STATE_FOLDER)


def _is_damage(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", None) in _DAMAGE  # errors of the module have no code


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino  # noqa: PTH116 - several times as fast as Path.stat
    except FileNotFoundError:
        return None
