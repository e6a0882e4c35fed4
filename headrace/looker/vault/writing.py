"""Storing a batch: one short transaction, in which what did not change costs a touch.

Hashing is done where the item is made and compressing before the transaction begins, so that the
lock is held for SQLite alone. Which bodies need compressing is looked up on the reader's
connection; if another writer comes between, the transaction finds out and compresses the rest.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from headrace.looker.vault.codec import compress
from headrace.looker.vault.items import Item
from headrace.looker.vault.model import Upserted

Packed = Mapping[bytes, tuple[int, bytes]]

TRASHED = "trashed"
GONE = "gone"
_BY_BODY = "the body says so"
_SEEN = ", seen_session = ?, seen_at = ?"
_FIND = "SELECT key, hash, version, deletion FROM item WHERE type = ? AND id = ?"


def pack_changed(db: sqlite3.Connection, items: Sequence[Item]) -> dict[bytes, tuple[int, bytes]]:
    """The compressed bodies of those items that the vault does not hold as they are."""
    packed: dict[bytes, tuple[int, bytes]] = {}
    for item in items:
        row = db.execute(_FIND, (item.type, item.id)).fetchone()
        if (row is None or row[1] != item.hash) and item.hash not in packed:
            packed[item.hash] = compress(item.body)
    return packed


def upsert(
    db: sqlite3.Connection,
    session: int,
    items: Sequence[Item],
    packed: Packed,
    *,
    at: str,
    origin: str = "server",
) -> Upserted:
    """Store `items` in an open transaction."""
    new = changed = returned = 0
    touched: list[tuple[int, str, int]] = []
    for item in items:
        row = db.execute(_FIND, (item.type, item.id)).fetchone()
        if row is None:
            _insert(db, session, item, packed, at, origin)
            new += 1
            continue
        key, stored, version, deletion = row
        if stored != item.hash:
            _replace(db, key, version + 1, session, item, packed, at, origin)
            changed += 1
        elif origin == "server":
            touched.append((session, at, key))
        if origin == "server":
            returned += _standing(db, key, session, item, at, deletion)
    db.executemany("UPDATE item SET seen_session = ?, seen_at = ? WHERE key = ?", touched)
    return Upserted(new, changed, len(items) - new - changed, returned)


def _insert(
    db: sqlite3.Connection, session: int, item: Item, packed: Packed, at: str, origin: str
) -> None:
    cursor = db.execute(
        "INSERT INTO item (type, id, name, owner, folder, created_at, updated_at, deletion,"
        " deleted_at, first_session, seen_session, seen_at, version, hash)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?)",
        (
            item.type, item.id, item.name, item.owner, item.folder, item.created_at,
            item.updated_at, *_deletion(item, at), session, session, at, item.hash,
        ),
    )  # fmt: skip
    assert cursor.lastrowid is not None
    if item.deleted:
        _tell(db, cursor.lastrowid, session, "deleted", at, _BY_BODY)
    _add_body(db, cursor.lastrowid, 1, session, item, packed, at, origin)


def _replace(
    db: sqlite3.Connection,
    key: int,
    version: int,
    session: int,
    item: Item,
    packed: Packed,
    at: str,
    origin: str,
) -> None:
    db.execute(
        "UPDATE item SET name = ?, owner = ?, folder = ?, created_at = ?, updated_at = ?,"
        " version = ?, hash = ?" + (_SEEN if origin == "server" else "") + " WHERE key = ?",
        (
            item.name, item.owner, item.folder, item.created_at, item.updated_at, version,
            item.hash, *((session, at) if origin == "server" else ()), key,
        ),
    )  # fmt: skip
    _add_body(db, key, version, session, item, packed, at, origin)


def _add_body(
    db: sqlite3.Connection,
    key: int,
    version: int,
    session: int,
    item: Item,
    packed: Packed,
    at: str,
    origin: str,
) -> None:
    codec, stored = packed.get(item.hash) or compress(item.body)
    db.execute(
        "INSERT INTO body (item, version, session, stored_at, origin, hash, size_bytes, codec,"
        " body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (key, version, session, at, origin, item.hash, len(item.body), codec, stored),
    )


def _standing(
    db: sqlite3.Connection, key: int, session: int, item: Item, at: str, was: str | None
) -> bool:
    """Keep up what the server says of deletion; whether a deleted item is there again."""
    now, deleted_at = _deletion(item, at)
    if now == was:
        return False
    db.execute("UPDATE item SET deletion = ?, deleted_at = ? WHERE key = ?", (now, deleted_at, key))
    kind = "returned" if was in (GONE, TRASHED) and now is None else "deleted"
    _tell(db, key, session, kind, at, _BY_BODY if now else f"shown by the server; was {was}")
    return kind == "returned"


def _tell(
    db: sqlite3.Connection, key: int, session: int, kind: str, at: str, evidence: str
) -> None:
    db.execute(
        "INSERT INTO event (item, session, kind, at, evidence) VALUES (?, ?, ?, ?, ?)",
        (key, session, kind, at, evidence),
    )


def _deletion(item: Item, at: str) -> tuple[str | None, str | None]:
    return (TRASHED, item.deleted_at or at) if item.deleted else (None, None)
