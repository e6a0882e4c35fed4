"""The items of a vault: how bodies are compressed, stored, read with their history, and removed.

zstd at level 1, through pyarrow, which the lake needs anyway: measured on dashboards of 11 and
26 kB it takes 28 µs each and leaves 22 and 11 %; zlib at level 1 takes 33 and 42 µs and leaves 23
and 12 %. Higher levels cost two to three times as much for a tenth of the size. Bodies that do not
shrink stay as they are.

A batch is stored in one short transaction, in which what did not change costs a touch. Hashing is
done where the item is made and compressing before the transaction begins, so that the lock is held
for SQLite alone. Which bodies need compressing is looked up on the reader's connection; if another
writer comes between, the transaction finds out and compresses the rest.

Only `remove_old_versions` removes a body. The current version of an item stays as long as the item
does; an item is removed as a whole only if it was proven to be gone from the server long ago, and
that is asked for. The file does not shrink; what comes next uses the room.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from headrace.looker.exceptions import BodyDamaged, NotInVault
from headrace.looker.vault.file import VaultFile
from headrace.looker.vault.items import Item, digest, utc_text
from headrace.looker.vault.model import Body, ItemComparison, Row, UpsertCounts, Version

if TYPE_CHECKING:
    import pyarrow as pa

PLAIN = 0
ZSTD = 1
_SMALLEST = 128


@cache
def _zstd() -> pa.Codec:
    import pyarrow as pa  # not for help

    return pa.Codec("zstd", compression_level=1)


class UnknownCodec(ValueError):
    """A body was written in a way that this version does not know."""


def compress(body: bytes) -> tuple[int, bytes]:
    """The codec that was used, and the bytes to store."""
    if len(body) >= _SMALLEST:
        packed = cast(bytes, _zstd().compress(body, asbytes=True))
        if len(packed) < len(body):
            return ZSTD, packed
    return PLAIN, body


def decompress(codec: int, packed: bytes, size_bytes: int) -> bytes:
    """The body as the server sent it.

    Raises:
        UnknownCodec: the number is none of ours.
        OSError, ValueError: the bytes do not decompress to `size_bytes`.
    """
    if codec == PLAIN:
        return packed
    if codec != ZSTD:
        raise UnknownCodec(f"codec {codec}")
    return cast(bytes, _zstd().decompress(packed, decompressed_size=size_bytes, asbytes=True))


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
) -> UpsertCounts:
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
            returned += _update_deletion(db, key, session, item, at, deletion)
    db.executemany("UPDATE item SET seen_session = ?, seen_at = ? WHERE key = ?", touched)
    return UpsertCounts(new, changed, len(items) - new - changed, returned)


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
        _add_event(db, cursor.lastrowid, session, "deleted", at, _BY_BODY)
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


def _update_deletion(
    db: sqlite3.Connection, key: int, session: int, item: Item, at: str, was: str | None
) -> bool:
    """Keep up what the server says of deletion; whether a deleted item is there again."""
    now, deleted_at = _deletion(item, at)
    if now == was:
        return False
    db.execute("UPDATE item SET deletion = ?, deleted_at = ? WHERE key = ?", (now, deleted_at, key))
    kind = "returned" if was in (GONE, TRASHED) and now is None else "deleted"
    _add_event(db, key, session, kind, at, _BY_BODY if now else f"shown by the server; was {was}")
    return kind == "returned"


def _add_event(
    db: sqlite3.Connection, key: int, session: int, kind: str, at: str, evidence: str
) -> None:
    db.execute(
        "INSERT INTO event (item, session, kind, at, evidence) VALUES (?, ?, ?, ?, ?)",
        (key, session, kind, at, evidence),
    )


def _deletion(item: Item, at: str) -> tuple[str | None, str | None]:
    return (TRASHED, item.deleted_at or at) if item.deleted else (None, None)


_ROW = (
    "type, id, name, owner, folder, created_at, updated_at, deletion, deleted_at, first_session,"
    " seen_session, seen_at, version, hash"
)
_BODY = (
    "item.type, item.id, body.version, body.session, body.stored_at, body.origin, body.hash,"
    " body.size_bytes, body.codec, body.body"
)
_VERSION_AT = "(SELECT MAX(version) FROM body WHERE item = key AND session <= {at})"
_EVENT_AT = (
    "(SELECT kind FROM event WHERE item = key AND session <= {at}"
    " ORDER BY session DESC, rowid DESC LIMIT 1)"
)
_MOVED = (
    f"type, id, name, {_VERSION_AT.format(at=':before')}, {_VERSION_AT.format(at=':after')},"
    f" (SELECT origin FROM body WHERE item = key AND version = {_VERSION_AT.format(at=':after')}),"
    f" {_EVENT_AT.format(at=':before')}, {_EVENT_AT.format(at=':after')}, first_session"
)
_AT_ONCE = 500
_BODIES_AT_ONCE = 50


class Contents:
    """See `Vault.contents`."""

    def __init__(self, file: VaultFile) -> None:
        self._file = file

    def counts(self) -> dict[str, tuple[int, int]]:
        """Per type: items on the server as far as is known, and deleted ones that are kept."""
        rows = self._file.query(
            "SELECT type, SUM(deletion IS NULL), SUM(deletion IS NOT NULL) FROM item GROUP BY type"
        )
        return {type_: (live, deleted) for type_, live, deleted in rows}

    def sizes(self) -> dict[str, dict[str, int]]:
        """Per type: items, deleted, versions, and the bytes of all bodies as sent and as stored."""
        names = ("items", "deleted", "versions", "body_bytes", "stored_bytes")
        rows = self._file.query(
            "SELECT type, COUNT(DISTINCT key) FILTER (WHERE deletion IS NULL),"
            " COUNT(DISTINCT key) FILTER (WHERE deletion IS NOT NULL),"
            " COUNT(*), SUM(size_bytes), SUM(LENGTH(body))"
            " FROM item JOIN body ON body.item = item.key GROUP BY type ORDER BY type"
        )
        return {type_: dict(zip(names, numbers, strict=True)) for type_, *numbers in rows}

    def events(self, type_: str, item_id: str) -> list[dict[str, Any]]:
        """When an item was deleted and returned, oldest first: kind, at, session, evidence."""
        rows = self._file.query(
            "SELECT event.kind, event.at, event.session, event.evidence"
            " FROM event JOIN item ON item.key = event.item"
            " WHERE type = ? AND id = ? ORDER BY event.rowid",
            (type_, item_id),
        )
        return [dict(zip(("kind", "at", "session", "evidence"), row, strict=True)) for row in rows]

    def row(self, type_: str, item_id: str) -> Row | None:
        """One item without its body; None if the vault does not hold it."""
        row = self._file.query_one(
            f"SELECT {_ROW} FROM item WHERE type = ? AND id = ?", (type_, item_id)
        )
        return Row(*row) if row else None

    def rows(
        self, type_: str = "", *, deleted: bool = False, folder: str | None = None, text: str = ""
    ) -> Iterator[Row]:
        """Items by type and id, in bounded memory.

        Args:
            type_: of this type only.
            deleted: also those that are deleted on the server.
            folder: only those in the folder with this id.
            text: only those whose name or id holds it, whatever the case.
        """
        where, values = ["1"], []
        for condition, value in (("type = ?", type_), ("folder = ?", folder)):
            if value:
                where.append(condition)
                values.append(value)
        if not deleted:
            where.append("deletion IS NULL")
        if text:
            where.append("(instr(lower(name), lower(?)) OR instr(lower(id), lower(?)))")
            values += [text, text]
        after: tuple[str, str] = ("", "")
        while True:
            rows = self._file.query(
                f"SELECT {_ROW} FROM item WHERE {' AND '.join(where)}"
                " AND (type, id) > (?, ?) ORDER BY type, id LIMIT ?",
                (*values, *after, _AT_ONCE),
            )
            yield from (Row(*row) for row in rows)
            if len(rows) < _AT_ONCE:
                return
            after = (rows[-1][0], rows[-1][1])

    def body(self, type_: str, item_id: str, *, version: int | None = None) -> Body:
        """A version of an item, the current one if left out; its hash is checked.

        Raises:
            NotInVault: no such item or version.
            VaultDamaged: the stored bytes are not those that were stored.
        """
        which = "item.version" if version is None else "?"
        values = (type_, item_id) if version is None else (type_, item_id, version)
        row = self._file.query_one(
            f"SELECT {_BODY} FROM item JOIN body ON body.item = item.key"
            f" WHERE item.type = ? AND item.id = ? AND body.version = {which}",
            values,
        )
        if row is None:
            raise NotInVault(type_, item_id, version)
        return self._checked(row)

    def history(self, type_: str, item_id: str) -> list[Version]:
        """The versions of an item without their bodies, oldest first; empty if it is not here."""
        rows = self._file.query(
            "SELECT body.version, body.session, body.stored_at, body.origin, body.size_bytes,"
            " body.hash FROM item JOIN body ON body.item = item.key"
            " WHERE item.type = ? AND item.id = ? ORDER BY body.version",
            (type_, item_id),
        )
        return [Version(*row) for row in rows]

    def audit(self, type_: str = "") -> Iterator[tuple[str, str, int, str]]:
        """Every version with what is wrong with it (nothing, as a rule): type, id, version, wrong.

        In the order in which they were stored, in bounded memory.
        """
        after = 0
        while True:
            rows = self._file.query(
                f"SELECT body.rowid, {_BODY} FROM body JOIN item ON item.key = body.item"
                " WHERE body.rowid > ? AND (type = ? OR ? = '') ORDER BY body.rowid LIMIT ?",
                (after, type_, type_, _BODIES_AT_ONCE),
            )
            for _, *row in rows:
                try:
                    self._checked(tuple(row))
                except BodyDamaged as error:
                    yield error.type, error.id, error.version, error.wrong
                else:
                    yield row[0], row[1], row[2], ""
            if len(rows) < _BODIES_AT_ONCE:
                return
            after = rows[-1][0]

    def compare_sessions(
        self, before: int, after: int, *, types: Iterable[str] = ()
    ) -> list[ItemComparison]:
        """Items of which a version or an event was stored after one session and up to another."""
        wanted = {f"type_{at}": type_ for at, type_ in enumerate(types)}
        of_types = f"WHERE type IN ({', '.join(f':{name}' for name in wanted)})" if wanted else ""
        rows = self._file.query(
            f"SELECT {_MOVED} FROM item JOIN ("
            " SELECT item FROM body WHERE session > :before AND session <= :after"
            " UNION SELECT item FROM event WHERE session > :before AND session <= :after"
            f") ON item = key {of_types} ORDER BY type, id",
            {"before": before, "after": after, **wanted},
        )
        return [
            ItemComparison(
                t, i, name, b, a, origin, was == "deleted", now == "deleted", first <= before
            )
            for t, i, name, b, a, origin, was, now, first in rows
            if a is not None
        ]

    def _checked(self, row: tuple[Any, ...]) -> Body:
        type_, item_id, version, session, stored_at, origin, hash_, size_bytes, codec, packed = row
        wrong = ""
        try:
            body = decompress(codec, packed, size_bytes)
        except (UnknownCodec, OSError, ValueError) as error:
            wrong = f"does not decompress ({error})"
        else:
            if digest(body) != hash_:
                wrong = "is not what was stored (its hash differs)"
        if wrong:
            raise BodyDamaged(self._file.path, type_, item_id, version, wrong)
        return Body(type_, item_id, version, session, stored_at, origin, hash_, body)


_OLD_VERSIONS = """
SELECT body.rowid, LENGTH(body.body) FROM body JOIN item ON item.key = body.item
WHERE body.version <= item.version - :keep AND EXISTS (
    SELECT 1 FROM body AS later
    WHERE later.item = body.item AND later.version = body.version + 1
    AND later.stored_at < :before
)
"""
_GONE_ITEMS = """
SELECT item.key, COUNT(*), SUM(LENGTH(body.body)) FROM item JOIN body ON body.item = item.key
WHERE deletion = :gone AND deleted_at < :before GROUP BY item.key
"""


@dataclass(frozen=True, slots=True)
class CleanupReport:
    """What was removed, or would be: versions (those of such items included), items, bytes."""

    versions: int
    items: int
    freed_bytes: int


def remove_old_versions(
    file: VaultFile,
    now: datetime,
    *,
    keep_days: float,
    keep_versions: int = 1,
    gone: bool = False,
    dry_run: bool = False,
) -> CleanupReport:
    """Remove versions that were replaced long ago, in short transactions.

    Args:
        file: of the vault.
        now: the present.
        keep_days: what was replaced (or proven gone) less than so many days ago stays.
        keep_versions: so many of the newest stay whatever their age, the current one included.
        gone: also items that are gone, with all they have.
        dry_run: count only.

    Raises:
        ValueError: a number that is out of range.
    """
    if keep_days < 0 or keep_versions < 1:
        raise ValueError("keep the current version at least, and no less than zero days")
    before = utc_text(now - timedelta(days=keep_days))
    values = {"before": before, "keep": keep_versions, "gone": GONE}
    versions = items = freed = 0
    if gone:
        expired = file.query(_GONE_ITEMS, values)
        items = len(expired)
        versions += sum(count for _, count, _ in expired)
        freed += sum(size for _, _, size in expired)
        if not dry_run:
            _in_transactions(file, [(key,) for key, _, _ in expired], _delete_items)
    # What belongs to an item that goes as a whole was counted with it.
    others = " AND (item.deletion IS NOT :gone OR deleted_at >= :before)" if gone else ""
    old = file.query(_OLD_VERSIONS + others, values)
    versions += len(old)
    freed += sum(size for _, size in old)
    if not dry_run:
        _in_transactions(file, [(rowid,) for rowid, _ in old], _delete_versions)
    return CleanupReport(versions, items, freed)


def _in_transactions(
    file: VaultFile,
    keys: list[tuple[int]],
    work: Callable[[sqlite3.Connection, list[tuple[int]]], None],
) -> None:
    for at in range(0, len(keys), _AT_ONCE):
        with file.writing() as db:
            work(db, keys[at : at + _AT_ONCE])


def _delete_versions(db: sqlite3.Connection, rowids: list[tuple[int]]) -> None:
    db.executemany("DELETE FROM body WHERE rowid = ?", rowids)


def _delete_items(db: sqlite3.Connection, keys: list[tuple[int]]) -> None:
    """Those that are still gone: one may have been seen again since."""
    still = [
        key
        for key in keys
        if db.execute("SELECT deletion FROM item WHERE key = ?", key).fetchone() == (GONE,)
    ]
    for table, column in (("body", "item"), ("event", "item"), ("item", "key")):
        db.executemany(f"DELETE FROM {table} WHERE {column} = ?", still)
