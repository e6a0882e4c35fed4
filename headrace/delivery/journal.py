"""The durable side of a queue: accepted requests, the graveyard, and the books of both.

A request is in the file from the moment its producer is answered until it ends. It is `queued`, or
`taken` by a worker that may have sent it, or in the `graveyard`; one that succeeded or expired is
only counted. So at any moment

    accepted = succeeded + expired + purged + graveyard + queued + taken

which one transaction after the other keeps. What was `taken` when a process died has an unknown
outcome: `Journal.recover` queues it again if it may be repeated, and buries it if not.

Every transaction is on the disk (SQLite, WAL, synchronous = FULL) before its caller goes on. One
thread writes, and takes all changes that wait into one transaction, so a disk that needs 5 ms for
each still takes hundreds of requests a second.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.delivery.exceptions import JournalUnavailable
from headrace.delivery.model import ApiRequest, Buried, Outcome, Pending
from headrace.locks import sqlite_holders

_APPLICATION_ID = 0x48525251  # "HRRQ": marks our file among SQLite files
_VERSION = 1
_BUSY_TIMEOUT_S = 10.0
_SCHEMA = f"""
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_VERSION};
CREATE TABLE request (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    method      TEXT NOT NULL,
    path        TEXT NOT NULL,
    body        BLOB,
    ttl_s       REAL,
    idempotent  INTEGER NOT NULL,
    accepted_at REAL NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('queued', 'taken', 'graveyard')),
    tries       INTEGER NOT NULL DEFAULT 0,
    reason      TEXT NOT NULL DEFAULT '',
    unknown     INTEGER NOT NULL DEFAULT 0,
    ended_at    REAL
) STRICT;
CREATE INDEX request_state ON request (state, id);
CREATE TABLE tally (name TEXT PRIMARY KEY, count INTEGER NOT NULL) STRICT;
CREATE TABLE source (name TEXT PRIMARY KEY, lines INTEGER NOT NULL) STRICT;
INSERT INTO tally VALUES ('accepted', 0), ('succeeded', 0), ('expired', 0), ('purged', 0)
"""
#: Why a request is in the graveyard that a process took with it.
UNKNOWN_OUTCOME = "its outcome is unknown: the process ended while it was under way"

Change = Callable[[sqlite3.Connection], Any]


@dataclass(frozen=True, slots=True)
class Books:
    """How many requests a queue has accepted since it was made, and where they are."""

    accepted: int
    succeeded: int
    expired: int
    purged: int
    graveyard: int
    queued: int
    taken: int

    @property
    def add_up(self) -> bool:
        """Whether every accepted request is in exactly one place."""
        places = (self.succeeded, self.expired, self.purged)
        return self.accepted == sum((*places, self.graveyard, self.queued, self.taken))


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a process that died left under way: queued again, and buried."""

    repeated: int = 0
    buried: int = 0


class Journal:
    """The file of one queue. Safe between threads.

    Several processes may look at it and change the graveyard; only one may deliver (its caller
    holds a lease).

    Args:
        path: made with its folder if missing, for its owner alone.
        create: whether it may be made.
        wall: Unix seconds.
        clock: monotonic seconds, of `Pending`.

    Raises:
        JournalUnavailable: it cannot be made, read or written, or is none of ours.
    """

    def __init__(
        self,
        path: Path,
        *,
        create: bool = True,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self._wall = wall
        self._clock = clock
        self._error: JournalUnavailable | None = None
        self._changes: queue.SimpleQueue[tuple[Change, Future[Any]] | None] = queue.SimpleQueue()
        try:
            if not create and not path.exists():
                raise JournalUnavailable(path, "there is none", hint="Nothing was ever sent by it")
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600)
            self._db = self._open()
        except (OSError, sqlite3.Error) as error:
            raise self._unavailable(error) from error
        self._writer = threading.Thread(target=self._write, name="request-journal", daemon=True)
        self._writer.start()

    def close(self) -> None:
        """Write what was asked for so far, and close the file."""
        self._changes.put(None)
        self._writer.join()
        self._db.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- requests ---------------------------------------------------------------------------------

    def accept(
        self, requests: Sequence[ApiRequest], *, source: str = "", lines: int = 0
    ) -> list[Pending]:
        """Take requests over from their producer: durable when this returns.

        Args:
            requests: in their order.
            source: the file they were read from, if it is to be gone on with after a kill.
            lines: of it that are read with these requests.

        Raises:
            JournalUnavailable: none of them was accepted.
        """
        now_s, now_at = self._clock(), self._wall()

        def change(db: sqlite3.Connection) -> list[int]:
            ids = [
                db.execute(
                    "INSERT INTO request (method, path, body, ttl_s, idempotent, accepted_at,"
                    " state) VALUES (?, ?, ?, ?, ?, ?, 'queued')",
                    (each.method, each.path, each.body, each.ttl_s, each.may_repeat, now_at),
                ).lastrowid
                or 0
                for each in requests
            ]
            _count(db, "accepted", len(ids))
            if source:
                db.execute("INSERT OR REPLACE INTO source VALUES (?, ?)", (source, lines))
            return ids

        ids: list[int] = self._changed(change)
        return [
            Pending(number, request, now_s, now_s + request.ttl_s if request.ttl_s else None)
            for number, request in zip(ids, requests, strict=True)
        ]

    def take(self, pending: Pending) -> bool:
        """Note that an attempt may leave from now on, durably; False if it is not queued any more.

        Raises:
            JournalUnavailable: it must not leave.
        """
        taken: bool = self._changed(
            lambda db: _moved(
                db, "UPDATE request SET state = 'taken' WHERE id = ? AND state = 'queued'", pending
            )
        )
        return taken

    def put_back(self, pending: Pending) -> None:
        """Note that it waits again, without waiting for the disk."""
        tries, reason = pending.tries, pending.reason
        self._ask(
            lambda db: db.execute(
                "UPDATE request SET state = 'queued', tries = ?, reason = ?"
                " WHERE id = ? AND state = 'taken'",
                (tries, reason, pending.id),
            )
        )

    def end(self, pending: Pending, outcome: Outcome, *, unknown: bool = False) -> None:
        """Note its outcome, without waiting for the disk. The first one counts.

        Args:
            outcome: what became of it.
            unknown: whether the server may have carried out what is buried.
        """
        tries, reason, now_at = pending.tries, pending.reason, self._wall()

        def change(db: sqlite3.Connection) -> None:
            if outcome is Outcome.GRAVEYARD:
                db.execute(
                    "UPDATE request SET state = 'graveyard', tries = ?, reason = ?, unknown = ?,"
                    " ended_at = ? WHERE id = ? AND state <> 'graveyard'",
                    (tries, reason, unknown, now_at, pending.id),
                )
            elif _moved(db, "DELETE FROM request WHERE id = ? AND state <> 'graveyard'", pending):
                _count(db, "succeeded" if outcome is Outcome.SUCCESS else "expired", 1)

        self._ask(change)

    def recover(self, *, most_tries: int) -> Recovered:
        """Decide about what a process that died had under way; for who holds the lease.

        Args:
            most_tries: attempts of one request; the one that died counts.
        """
        now_at = self._wall()

        def change(db: sqlite3.Connection) -> Recovered:
            repeated = db.execute(
                "UPDATE request SET state = 'queued', tries = tries + 1"
                " WHERE state = 'taken' AND idempotent AND tries + 1 < ?",
                (most_tries,),
            ).rowcount
            buried = db.execute(
                "UPDATE request SET state = 'graveyard', tries = tries + 1, reason = ?,"
                " unknown = 1, ended_at = ? WHERE state = 'taken'",
                (UNKNOWN_OUTCOME, now_at),
            ).rowcount
            return Recovered(repeated, buried)

        found: Recovered = self._changed(change)
        return found

    def kept(self, *, batch: int = 100) -> Iterator[list[Pending]]:
        """What earlier runs left queued: those that were tried before, then by order of arrival."""
        for condition in ("tries > 0", "tries = 0"):
            last, highest = 0, self._highest()
            while rows := self._look(
                "SELECT id, method, path, body, ttl_s, idempotent, accepted_at, tries, reason"
                f" FROM request WHERE state = 'queued' AND {condition} AND id > ? AND id <= ?"
                " ORDER BY id LIMIT ?",
                (last, highest, batch),
            ):
                last = rows[-1][0]
                yield [self._pending(row) for row in rows]

    def _highest(self) -> int:
        return int(self._look("SELECT coalesce(max(id), 0) FROM request")[0][0])

    def _pending(self, row: tuple[Any, ...]) -> Pending:
        request, accepted_at, tries, reason = _request(row), row[6], row[7], row[8]
        # Between runs only the wall clock is known. Set back, it must not give more time than
        # there was.
        waited_s = max(0.0, self._wall() - accepted_at)
        now_s = self._clock()
        deadline_s = now_s + request.ttl_s - waited_s if request.ttl_s else None
        return Pending(row[0], request, now_s - waited_s, deadline_s, tries, reason=reason)

    # -- the graveyard ----------------------------------------------------------------------------

    def graveyard(self, *, limit: int = -1) -> list[Buried]:
        """What is buried, in the order of arrival."""
        rows = self._look(
            "SELECT id, method, path, body, ttl_s, idempotent, accepted_at, tries, reason, unknown,"
            " ended_at FROM request WHERE state = 'graveyard' ORDER BY id LIMIT ?",
            (limit,),
        )
        return [
            Buried(row[0], _request(row), row[7], row[8], bool(row[9]), row[6], row[10])
            for row in rows
        ]

    def replay(self, ids: Sequence[int] = (), *, unknown: bool = False) -> int:
        """Queue what is buried again, with new tries and a new time to live; return how many.

        Args:
            ids: which; empty for all.
            unknown: also those that the server may have carried out and that may not be repeated.
        """
        now_at = self._wall()
        which, values = _chosen(ids)
        guard = "" if unknown else " AND (idempotent OR NOT unknown)"
        replayed: int = self._changed(
            lambda db: (
                db.execute(
                    "UPDATE request SET state = 'queued', tries = 0, reason = '', unknown = 0,"
                    f" ended_at = NULL, accepted_at = ? WHERE state = 'graveyard'{which}{guard}",
                    (now_at, *values),
                ).rowcount
            )
        )
        return replayed

    def purge(self, ids: Sequence[int] = ()) -> int:
        """Delete what is buried (all of it without ids); it stays counted. Return how many."""
        which, values = _chosen(ids)

        def change(db: sqlite3.Connection) -> int:
            gone = db.execute(
                f"DELETE FROM request WHERE state = 'graveyard'{which}", values
            ).rowcount
            _count(db, "purged", gone)
            return gone

        purged: int = self._changed(change)
        return purged

    def books(self) -> Books:
        """The counts, of one moment."""
        rows = self._look(
            "SELECT name, count FROM tally UNION ALL"
            " SELECT state, count(*) FROM request GROUP BY state"
        )
        counts = dict.fromkeys(("graveyard", "queued", "taken"), 0) | dict(rows)
        return Books(**counts)

    def lines_of(self, source: str) -> int:
        """How many lines of a file were accepted by a run that did not come to its end."""
        rows = self._look("SELECT lines FROM source WHERE name = ?", (source,))
        return int(rows[0][0]) if rows else 0

    def finish_source(self, source: str) -> None:
        """All of a file was accepted: the next run that is given it begins at its first line."""
        self._changed(
            lambda db: db.execute("DELETE FROM source WHERE name = ?", (source,)) and None
        )

    # -- the file ---------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise what has befallen the file meanwhile.

        Raises:
            JournalUnavailable: something could not be written.
        """
        if self._error is not None:
            raise self._error.with_traceback(None)

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(
            self.path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("BEGIN IMMEDIATE")
            version = db.execute("PRAGMA user_version").fetchone()[0]
            mark = db.execute("PRAGMA application_id").fetchone()[0]
            empty = not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if empty and not version:
                for statement in _SCHEMA.split(";\n"):
                    db.execute(statement)
            elif mark != _APPLICATION_ID:
                raise JournalUnavailable(
                    self.path, "it is another program's file", hint="Move it away"
                )
            elif version > _VERSION:
                raise JournalUnavailable(
                    self.path,
                    f"it has version {version}, this program knows up to {_VERSION}",
                    hint="Use the newer headrace, or another queue",
                )
            db.execute("COMMIT")
        except BaseException:
            db.close()
            raise
        return db

    def _look(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Rows as they are once everything that was asked for is written."""
        rows: list[tuple[Any, ...]] = self._changed(lambda db: db.execute(query, values).fetchall())
        return rows

    def _ask(self, change: Change) -> Future[Any]:
        asked: Future[Any] = Future()
        self._changes.put((change, asked))
        return asked

    def _changed(self, change: Change) -> Any:
        self.check()
        return self._ask(change).result()

    def _write(self) -> None:
        over = False
        while not over:
            waiting = [self._changes.get()]
            while not self._changes.empty():
                waiting.append(self._changes.get())
            over = None in waiting
            self._commit([each for each in waiting if each is not None])

    def _commit(self, waiting: list[tuple[Change, Future[Any]]]) -> None:
        """One transaction for all that wait. The first failure is the last one: nothing goes on."""
        try:
            self.check()
            if waiting:
                self._db.execute("BEGIN IMMEDIATE")
                results = [change(self._db) for change, _ in waiting]
                self._db.execute("COMMIT")
        except JournalUnavailable as error:
            _fail(waiting, error)
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            self._error = self._unavailable(error)
            _fail(waiting, self._error)
        else:
            for (_, asked), result in zip(waiting, results if waiting else (), strict=True):
                asked.set_result(result)

    def _unavailable(self, error: OSError | sqlite3.Error) -> JournalUnavailable:
        if (holders := sqlite_holders(self.path, error)) is not None:
            return JournalUnavailable(self.path, f"{error} by {holders}", hint=holders.way_out)
        problem = error.strerror if isinstance(error, OSError) else str(error)
        return JournalUnavailable(self.path, problem or str(error))


def _fail(waiting: list[tuple[Change, Future[Any]]], error: JournalUnavailable) -> None:
    for _, asked in waiting:
        asked.set_exception(error)


def _count(db: sqlite3.Connection, name: str, more: int) -> None:
    db.execute("UPDATE tally SET count = count + ? WHERE name = ?", (more, name))


def _moved(db: sqlite3.Connection, statement: str, pending: Pending) -> bool:
    return db.execute(statement, (pending.id,)).rowcount == 1


def _chosen(ids: Sequence[int]) -> tuple[str, tuple[int, ...]]:
    """The condition that chooses requests by id, and its values."""
    if not ids:
        return "", ()
    return f" AND id IN ({','.join('?' * len(ids))})", tuple(ids)


def _request(row: tuple[Any, ...]) -> ApiRequest:
    return ApiRequest(row[2], row[1], row[3], row[4], bool(row[5]))
