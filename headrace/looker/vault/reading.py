"""What a vault holds, and what it held before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from headrace.looker.vault.codec import UnknownCodec, decompress, digest
from headrace.looker.vault.exceptions import BodyDamaged, NotInVault
from headrace.looker.vault.file import VaultFile
from headrace.looker.vault.model import Body, Moved, Row, Version

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
        with self._file.reading() as db:
            rows = db.execute(
                "SELECT type, SUM(deletion IS NULL), SUM(deletion IS NOT NULL)"
                " FROM item GROUP BY type"
            ).fetchall()
        return {type_: (live, deleted) for type_, live, deleted in rows}

    def sizes(self) -> dict[str, dict[str, int]]:
        """Per type: items, deleted, versions, and the bytes of all bodies as sent and as stored."""
        names = ("items", "deleted", "versions", "body_bytes", "stored_bytes")
        with self._file.reading() as db:
            rows = db.execute(
                "SELECT type, COUNT(DISTINCT key) FILTER (WHERE deletion IS NULL),"
                " COUNT(DISTINCT key) FILTER (WHERE deletion IS NOT NULL),"
                " COUNT(*), SUM(size_bytes), SUM(LENGTH(body))"
                " FROM item JOIN body ON body.item = item.key GROUP BY type ORDER BY type"
            ).fetchall()
        return {type_: dict(zip(names, numbers, strict=True)) for type_, *numbers in rows}

    def events(self, type_: str, item_id: str) -> list[dict[str, Any]]:
        """When an item was deleted and returned, oldest first: kind, at, session, evidence."""
        with self._file.reading() as db:
            rows = db.execute(
                "SELECT event.kind, event.at, event.session, event.evidence"
                " FROM event JOIN item ON item.key = event.item"
                " WHERE type = ? AND id = ? ORDER BY event.rowid",
                (type_, item_id),
            ).fetchall()
        return [dict(zip(("kind", "at", "session", "evidence"), row, strict=True)) for row in rows]

    def row(self, type_: str, item_id: str) -> Row | None:
        """One item without its body; None if the vault does not hold it."""
        with self._file.reading() as db:
            row = db.execute(
                f"SELECT {_ROW} FROM item WHERE type = ? AND id = ?", (type_, item_id)
            ).fetchone()
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
            with self._file.reading() as db:
                rows = db.execute(
                    f"SELECT {_ROW} FROM item WHERE {' AND '.join(where)}"
                    " AND (type, id) > (?, ?) ORDER BY type, id LIMIT ?",
                    (*values, *after, _AT_ONCE),
                ).fetchall()
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
        with self._file.reading() as db:
            row = db.execute(
                f"SELECT {_BODY} FROM item JOIN body ON body.item = item.key"
                f" WHERE item.type = ? AND item.id = ? AND body.version = {which}",
                values,
            ).fetchone()
        if row is None:
            raise NotInVault(type_, item_id, version)
        return self._checked(row)

    def history(self, type_: str, item_id: str) -> list[Version]:
        """The versions of an item without their bodies, oldest first; empty if it is not here."""
        with self._file.reading() as db:
            rows = db.execute(
                "SELECT body.version, body.session, body.stored_at, body.origin, body.size_bytes,"
                " body.hash FROM item JOIN body ON body.item = item.key"
                " WHERE item.type = ? AND item.id = ? ORDER BY body.version",
                (type_, item_id),
            ).fetchall()
        return [Version(*row) for row in rows]

    def versions(self, type_: str, item_id: str) -> list[Body]:
        """The history of an item with every body, oldest first.

        Raises:
            NotInVault, VaultDamaged.
        """
        with self._file.reading() as db:
            rows = db.execute(
                f"SELECT {_BODY} FROM item JOIN body ON body.item = item.key"
                " WHERE item.type = ? AND item.id = ? ORDER BY body.version",
                (type_, item_id),
            ).fetchall()
        if not rows:
            raise NotInVault(type_, item_id)
        return [self._checked(row) for row in rows]

    def audited(self, type_: str = "") -> Iterator[tuple[str, str, int, str]]:
        """Every version with what is wrong with it (nothing, as a rule): type, id, version, wrong.

        In the order in which they were stored, in bounded memory.
        """
        after = 0
        while True:
            with self._file.reading() as db:
                rows = db.execute(
                    f"SELECT body.rowid, {_BODY} FROM body JOIN item ON item.key = body.item"
                    " WHERE body.rowid > ? AND (type = ? OR ? = '') ORDER BY body.rowid LIMIT ?",
                    (after, type_, type_, _BODIES_AT_ONCE),
                ).fetchall()
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

    def moved(self, before: int, after: int, *, types: Iterable[str] = ()) -> list[Moved]:
        """Items of which a version or an event was stored after one session and up to another."""
        wanted = {f"type_{at}": type_ for at, type_ in enumerate(types)}
        of_types = f"WHERE type IN ({', '.join(f':{name}' for name in wanted)})" if wanted else ""
        with self._file.reading() as db:
            rows = db.execute(
                f"SELECT {_MOVED} FROM item JOIN ("
                " SELECT item FROM body WHERE session > :before AND session <= :after"
                " UNION SELECT item FROM event WHERE session > :before AND session <= :after"
                f") ON item = key {of_types} ORDER BY type, id",
                {"before": before, "after": after, **wanted},
            ).fetchall()
        return [
            Moved(t, i, name, b, a, origin, was == "deleted", now == "deleted", first <= before)
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
