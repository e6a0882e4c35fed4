"""How far a session has come: pages that were stored, and ids whose bodies are still to come."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping

from headrace.looker.vault.file import VaultFile
from headrace.looker.vault.model import Page


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
