"""What failed, by name, with attempts, until it succeeds."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

from headrace.looker.vault.file import VaultFile
from headrace.looker.vault.items import shown
from headrace.looker.vault.model import ITEM, PAGE, Failed, Failure, Page, page_key

_COLUMNS = "type, kind, key, status, message, attempts, session, first_at, last_at, resolved_at"
_LONGEST_MESSAGE = 2_000


class Failures:
    """See `Vault.failures`."""

    def __init__(self, file: VaultFile, now: Callable[[], str]) -> None:
        self._file = file
        self._now = now

    def record(self, session: int, failed: Failed) -> None:
        """Record one failure, or one more attempt at an old one."""
        with self._file.writing() as db:
            add_failures(db, session, [failed], at=self._now())

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
        with self._file.reading() as db:
            rows = db.execute(
                f"SELECT {_COLUMNS} FROM failure WHERE {where}{of_types}{of_kind}"
                " ORDER BY type, kind, key",
                values,
            ).fetchall()
        return [Failure(*row) for row in rows]


def add_failures(
    db: sqlite3.Connection, session: int, failures: Iterable[Failed], *, at: str
) -> None:
    """Record failures in an open transaction."""
    db.executemany(
        f"INSERT INTO failure ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, 1, ?, ?, ?, NULL)"
        " ON CONFLICT DO UPDATE SET status = excluded.status, message = excluded.message,"
        " session = excluded.session, last_at = excluded.last_at, resolved_at = NULL,"
        " attempts = CASE WHEN resolved_at IS NULL THEN attempts + 1 ELSE 1 END,"
        " first_at = CASE WHEN resolved_at IS NULL THEN first_at ELSE excluded.first_at END",
        [
            (f.type, f.kind, f.key, f.status, shown(f.message)[:_LONGEST_MESSAGE], session, at, at)
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
