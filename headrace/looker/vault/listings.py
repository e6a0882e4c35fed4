"""Whether a listing was read to its end, and what it proves: nothing else may delete."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping

from headrace.looker.content import content_of
from headrace.looker.exceptions import ListingIncomplete, NotInVault
from headrace.looker.vault.bodies import GONE
from headrace.looker.vault.file import VaultFile
from headrace.looker.vault.model import ITEM, Listed


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
            type_, name: content type, and which listing of it (see `headrace.looker.content`).
            complete: read to its end without one failed page, in one session.
            items: how many it showed.
            scope: empty if it asked for everything; else what it was narrowed to, such as
                `folders 5, 7`.
        """
        with self._file.writing() as db:
            db.execute(
                "INSERT OR REPLACE INTO listing (session, type, name, scope, complete, items,"
                " ended_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (session, type_, name, scope, int(complete), items, self._now()),
            )

    def of(self, session: int) -> list[Listed]:
        """The listings of a session that have ended."""
        with self._file.reading() as db:
            rows = db.execute(
                "SELECT session, type, name, scope, complete, items, ended_at FROM listing"
                " WHERE session = ? ORDER BY type, name",
                (session,),
            ).fetchall()
        return [Listed(s, t, n, scope, bool(c), i, at) for s, t, n, scope, c, i, at in rows]

    def absent(self, session: int, type_: str) -> list[str]:
        """Ids that the vault believes to be on the server and that this session did not show.

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
        with self._file.reading() as db:
            rows = db.execute(
                "SELECT id FROM item WHERE type = ? AND deletion IS NULL AND seen_session < ?"
                " ORDER BY id",
                (type_, session),
            ).fetchall()
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
