"""Sessions: the runs that wrote to a vault, in order, and how far each has come.

A session's progress is the pages that it stored, and the ids whose bodies are still to come.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headrace.looker.exceptions import NoSuchSession
from headrace.looker.vault.file import VaultFile
from headrace.looker.vault.model import Page, Session, Status

_COLUMNS = "id, kind, run_id, parameters, started_at, ended_at, status, summary"


class Sessions:
    """See `Vault.sessions`."""

    def __init__(self, file: VaultFile, now: Callable[[], str]) -> None:
        self._file = file
        self._now = now

    def begin(
        self, kind: str, *, run_id: str = "", parameters: Mapping[str, Any] | None = None
    ) -> int:
        """Begin a session; everything stored under its number belongs to it.

        Args:
            kind: extract, retry, pack.
            run_id: of the run, as the UI knows it.
            parameters: what it is asked to do; must be JSON.
        """
        with self._file.writing() as db:
            cursor = db.execute(
                "INSERT INTO session (kind, run_id, parameters, started_at, status, summary)"
                " VALUES (?, ?, ?, ?, ?, '{}')",
                (kind, run_id, json.dumps(dict(parameters or {})), self._now(), Status.RUNNING),
            )
            assert cursor.lastrowid is not None
            return cursor.lastrowid

    def resume(self, session: int) -> None:
        """Go on with a session that was killed, interrupted or partial.

        Raises:
            NoSuchSession.
        """
        self.get(session)
        with self._file.writing() as db:
            db.execute(
                "UPDATE session SET status = ?, ended_at = NULL WHERE id = ?",
                (Status.RUNNING, session),
            )

    def end(
        self, session: int, status: Status, *, summary: Mapping[str, Any] | None = None
    ) -> None:
        """End a session. A done one forgets its pages and its to-do list.

        Args:
            session: its number.
            status: anything but running.
            summary: what it has to say; must be JSON.
        """
        with self._file.writing() as db:
            db.execute(
                "UPDATE session SET status = ?, ended_at = ?, summary = ? WHERE id = ?",
                (status, self._now(), json.dumps(dict(summary or {})), session),
            )
            if status is Status.DONE:
                db.execute("DELETE FROM page WHERE session <= ?", (session,))
                db.execute("DELETE FROM todo WHERE session <= ?", (session,))

    def get(self, session: int) -> Session:
        """One session.

        Raises:
            NoSuchSession.
        """
        with self._file.reading() as db:
            row = db.execute(f"SELECT {_COLUMNS} FROM session WHERE id = ?", (session,)).fetchone()
            if row is None:
                known = [str(n) for (n,) in db.execute("SELECT id FROM session ORDER BY id DESC")]
                few = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
                raise NoSuchSession(session, few or "none at all")
        return _session(row)

    def list(self, *, kind: str = "", limit: int | None = None) -> list[Session]:
        """The sessions, newest first; of one kind if given."""
        with self._file.reading() as db:
            rows = db.execute(
                f"SELECT {_COLUMNS} FROM session WHERE kind = ? OR ? = '' ORDER BY id DESC LIMIT ?",
                (kind, kind, -1 if limit is None else limit),
            ).fetchall()
        return [_session(row) for row in rows]

    def unfinished(self, kind: str) -> Session | None:
        """The newest session of `kind` if it is not done: what a resume goes on with."""
        newest = self.list(kind=kind, limit=1)
        return newest[0] if newest and newest[0].status is not Status.DONE else None


def _session(row: tuple[Any, ...]) -> Session:
    number, kind, run_id, parameters, started_at, ended_at, status, summary = row
    return Session(
        number, kind, run_id, json.loads(parameters), started_at, ended_at, Status(status),
        json.loads(summary),
    )  # fmt: skip


class Progress:
    """See `Vault.progress`. What it holds is written by `Vault.upsert_many`."""

    def __init__(self, file: VaultFile) -> None:
        self._file = file

    def pages(self, session: int, type_: str, listing: str) -> list[Page]:
        """The stored pages of a listing, by their start."""
        with self._file.reading() as db:
            rows = db.execute(
                "SELECT type, listing, start, size, items, first, last FROM page"
                " WHERE session = ? AND type = ? AND listing = ? ORDER BY start, size",
                (session, type_, listing),
            ).fetchall()
        return [Page(*row) for row in rows]

    def todo(self, session: int, type_: str, *, limit: int | None = None) -> list[str]:
        """Ids that were listed and whose bodies have neither come nor failed."""
        with self._file.reading() as db:
            rows = db.execute(
                "SELECT id FROM todo WHERE session = ? AND type = ? ORDER BY id LIMIT ?",
                (session, type_, -1 if limit is None else limit),
            ).fetchall()
        return [row[0] for row in rows]

    def counts(self, session: int) -> dict[str, tuple[int, int]]:
        """Per type: items on stored pages, and ids still to do."""
        with self._file.reading() as db:
            paged = dict(
                db.execute(
                    "SELECT type, SUM(items) FROM page WHERE session = ? GROUP BY type", (session,)
                )
            )
            todo = dict(
                db.execute(
                    "SELECT type, COUNT(*) FROM todo WHERE session = ? GROUP BY type", (session,)
                )
            )
        return {name: (paged.get(name, 0), todo.get(name, 0)) for name in {*paged, *todo}}


def add_pages(db: sqlite3.Connection, session: int, pages: Iterable[Page]) -> None:
    """Record pages as stored, in the transaction that stores what was on them."""
    db.executemany(
        "INSERT OR REPLACE INTO page (session, type, listing, start, size, items, first,"
        " last) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [(session, *page) for page in pages],
    )


def add_todo(db: sqlite3.Connection, session: int, todo: Mapping[str, Iterable[str]]) -> None:
    """Put ids on the list of those whose bodies are to be fetched."""
    db.executemany(
        "INSERT OR IGNORE INTO todo (session, type, id) VALUES (?, ?, ?)",
        [(session, type_, item_id) for type_, ids in todo.items() for item_id in ids],
    )


def drop_todo(db: sqlite3.Connection, session: int, keys: Iterable[tuple[str, str]]) -> None:
    """Take (type, id) off the list: they came, or failed."""
    if db.execute("SELECT 1 FROM todo WHERE session = ? LIMIT 1", (session,)).fetchone():
        db.executemany(
            "DELETE FROM todo WHERE session = ? AND type = ? AND id = ?",
            [(session, type_, item_id) for type_, item_id in keys],
        )
