"""What the sessions of a vault have recorded: pages, listings, failures, and what is still to do.

A session is one run that wrote to the vault. Its progress is the pages that it stored, and the ids
whose bodies are still to come. A listing that was read to its end is what proves an item absent;
nothing else may delete. A failure is kept by name, with its attempts, until it succeeds.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headrace.looker.content_types import content_of
from headrace.looker.exceptions import ListingIncomplete, NoSuchSession, NotInVault
from headrace.looker.vault.contents import GONE
from headrace.looker.vault.file import VaultFile
from headrace.looker.vault.items import shown
from headrace.looker.vault.model import (
    ITEM,
    PAGE,
    Failed,
    Failure,
    ListingOutcome,
    Page,
    Session,
    Status,
    page_key,
)

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
        self._file.execute(
            "UPDATE session SET status = ?, ended_at = NULL WHERE id = ?", (Status.RUNNING, session)
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
        rows = self._file.query(
            f"SELECT {_COLUMNS} FROM session WHERE kind = ? OR ? = '' ORDER BY id DESC LIMIT ?",
            (kind, kind, -1 if limit is None else limit),
        )
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
        rows = self._file.query(
            "SELECT type, listing, start, size, items, first, last FROM page"
            " WHERE session = ? AND type = ? AND listing = ? ORDER BY start, size",
            (session, type_, listing),
        )
        return [Page(*row) for row in rows]

    def todo(self, session: int, type_: str, *, limit: int | None = None) -> list[str]:
        """Ids that were listed and whose bodies have neither come nor failed."""
        rows = self._file.query(
            "SELECT id FROM todo WHERE session = ? AND type = ? ORDER BY id LIMIT ?",
            (session, type_, -1 if limit is None else limit),
        )
        return [row[0] for row in rows]


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


class Listings:
    """See `Vault.listings`."""

    def __init__(self, file: VaultFile, now: Callable[[], str]) -> None:
        self._file = file
        self._now = now

    def record(
        self, session: int, type_: str, name: str, *, complete: bool, items: int, scope: str = ""
    ) -> None:
        """Say how a listing of this session ended; said again, the last word counts.

        Args:
            session: its number.
            type_, name: content type (`headrace.looker.content_types`), and which listing of it.
            complete: read to its end without one failed page, in one session.
            items: how many it showed.
            scope: empty if it asked for everything; else what it was narrowed to, such as
                `folders 5, 7`.
        """
        self._file.execute(
            "INSERT OR REPLACE INTO listing (session, type, name, scope, complete, items,"
            " ended_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (session, type_, name, scope, int(complete), items, self._now()),
        )

    def of(self, session: int) -> list[ListingOutcome]:
        """The listings of a session that have ended."""
        rows = self._file.query(
            "SELECT session, type, name, scope, complete, items, ended_at FROM listing"
            " WHERE session = ? ORDER BY type, name",
            (session,),
        )
        return [ListingOutcome(s, t, n, scope, bool(c), i, at) for s, t, n, scope, c, i, at in rows]

    def absent(self, session: int, type_: str) -> list[str]:
        """Ids that are on the server as far as the vault knows and that this session did not show.

        They are candidates only: each is to be looked up, and only a 404 makes it deleted.

        Raises:
            ListingIncomplete: not every listing of the type is complete, unnarrowed and without
                an error in this session.
        """
        proven = {
            listed.name
            for listed in self.of(session)
            if listed.type == type_ and listed.complete and not listed.scope
        }
        missing = tuple(
            listing.name for listing in content_of(type_).listings if listing.name not in proven
        )
        if missing:
            raise ListingIncomplete(type_, session, missing)
        rows = self._file.query(
            "SELECT id FROM item WHERE type = ? AND deletion IS NULL AND seen_session < ?"
            " ORDER BY id",
            (type_, session),
        )
        return [row[0] for row in rows]

    def delete(self, session: int, type_: str, item_id: str, *, evidence: str) -> bool:
        """Mark an item as gone from the server; what the vault holds of it stays.

        Args:
            session: the one that proved it.
            type_, item_id: the item.
            evidence: the answer of the direct look-up, such as `404 for GET /looks/5`.

        Returns:
            False if it was marked as gone before.

        Raises:
            ValueError: without evidence.
            NotInVault: no such item.
        """
        if not evidence.strip():
            raise ValueError("only a proven deletion deletes: say what proved it")
        with self._file.writing() as db:
            row = db.execute(
                "SELECT key, deletion FROM item WHERE type = ? AND id = ?", (type_, item_id)
            ).fetchone()
            if row is None:
                raise NotInVault(type_, item_id)
            key, deletion = row
            if deletion == GONE:
                return False
            at = self._now()
            db.execute(
                "UPDATE item SET deletion = ?, deleted_at = COALESCE(deleted_at, ?) WHERE key = ?",
                (GONE, at, key),
            )
            db.execute(
                "INSERT INTO event (item, session, kind, at, evidence)"
                " VALUES (?, ?, 'deleted', ?, ?)",
                (key, session, at, evidence),
            )
            db.execute(
                "UPDATE failure SET resolved_at = ?"
                " WHERE type = ? AND kind = ? AND key = ? AND resolved_at IS NULL",
                (at, type_, ITEM, item_id),
            )
        return True


def mark_seen(
    db: sqlite3.Connection, session: int, seen: Mapping[str, Iterable[str]], *, at: str
) -> None:
    """A listing showed these ids: they exist, whatever becomes of their bodies."""
    db.executemany(
        "UPDATE item SET seen_session = ?, seen_at = ? WHERE type = ? AND id = ?",
        [(session, at, type_, item_id) for type_, ids in seen.items() for item_id in ids],
    )


_FAILURE = "type, kind, key, status, message, attempts, session, first_at, last_at, resolved_at"
LONGEST_MESSAGE = 2_000
#: Where something has failed before: one more attempt, the first one if it was resolved since.
FAILED_AGAIN = (
    " ON CONFLICT DO UPDATE SET status = excluded.status, message = excluded.message,"
    " session = excluded.session, last_at = excluded.last_at, resolved_at = NULL,"
    " attempts = CASE WHEN resolved_at IS NULL THEN attempts + 1 ELSE 1 END,"
    " first_at = CASE WHEN resolved_at IS NULL THEN first_at ELSE excluded.first_at END"
)


class Failures:
    """See `Vault.failures`."""

    def __init__(self, file: VaultFile, now: Callable[[], str]) -> None:
        self._file = file
        self._now = now

    def open(self, *, types: Iterable[str] = (), kind: str = "") -> list[Failure]:
        """What has failed and not succeeded since; of some types, of one kind (item or page)."""
        return self._select("resolved_at IS NULL", types, kind)

    def all(self, *, types: Iterable[str] = ()) -> list[Failure]:
        """Those that were resolved as well."""
        return self._select("1", types, "")

    def resolve(self, type_: str, kind: str, key: str) -> bool:
        """Close a failure: what failed was stored, or proved to be deleted. Whether it was open."""
        with self._file.writing() as db:
            return _resolve(db, [(type_, kind, key)], self._now()) > 0

    def _select(self, where: str, types: Iterable[str], kind: str) -> list[Failure]:
        wanted = tuple(types)
        marks = ", ".join("?" * len(wanted))
        of_types = f" AND type IN ({marks})" if wanted else ""
        of_kind = " AND kind = ?" if kind else ""
        values: list[Any] = [*wanted, *([kind] if kind else [])]
        rows = self._file.query(
            f"SELECT {_FAILURE} FROM failure WHERE {where}{of_types}{of_kind}"
            " ORDER BY type, kind, key",
            values,
        )
        return [Failure(*row) for row in rows]


def add_failures(
    db: sqlite3.Connection, session: int, failures: Iterable[Failed], *, at: str
) -> None:
    """Record failures in an open transaction."""
    db.executemany(
        f"INSERT INTO failure ({_FAILURE}) VALUES (?, ?, ?, ?, ?, 1, ?, ?, ?, NULL)" + FAILED_AGAIN,
        [
            (f.type, f.kind, f.key, f.status, shown(f.message)[:LONGEST_MESSAGE], session, at, at)
            for f in failures
        ],
    )


def resolve_stored(
    db: sqlite3.Connection, items: Iterable[tuple[str, str]], pages: Iterable[Page], *, at: str
) -> None:
    """Close the failures of what was stored just now, in an open transaction."""
    if db.execute("SELECT 1 FROM failure WHERE resolved_at IS NULL LIMIT 1").fetchone():
        keys = [(type_, ITEM, item_id) for type_, item_id in items]
        keys += [(p.type, PAGE, page_key(p.listing, p.start, p.size)) for p in pages]
        _resolve(db, keys, at)


def _resolve(db: sqlite3.Connection, keys: Iterable[tuple[str, str, str]], at: str) -> int:
    return db.executemany(
        "UPDATE failure SET resolved_at = ?"
        " WHERE type = ? AND kind = ? AND key = ? AND resolved_at IS NULL",
        [(at, *key) for key in keys],
    ).rowcount
