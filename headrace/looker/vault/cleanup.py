"""Removing old history, by age and by count. Nothing else ever removes a body.

The current version of an item stays as long as the item does. Items are removed as a whole only
when they were proven to be gone from the server long ago, and only if that is asked for. The file
does not shrink; what comes next uses the room.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace.looker.vault.bodies import GONE
from headrace.looker.vault.file import VaultFile
from headrace.looker.vault.items import utc_text

_AT_ONCE = 500
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
class Removed:
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
) -> Removed:
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
        with file.reading() as db:
            doomed = db.execute(_GONE_ITEMS, values).fetchall()
        items = len(doomed)
        versions += sum(count for _, count, _ in doomed)
        freed += sum(size for _, _, size in doomed)
        if not dry_run:
            _in_turns(file, [(key,) for key, _, _ in doomed], _let_items_go)
    # What belongs to an item that goes as a whole was counted with it.
    others = " AND (item.deletion IS NOT :gone OR deleted_at >= :before)" if gone else ""
    with file.reading() as db:
        old = db.execute(_OLD_VERSIONS + others, values).fetchall()
    versions += len(old)
    freed += sum(size for _, size in old)
    if not dry_run:
        _in_turns(file, [(rowid,) for rowid, _ in old], _let_versions_go)
    return Removed(versions, items, freed)


def _in_turns(
    file: VaultFile,
    keys: list[tuple[int]],
    work: Callable[[sqlite3.Connection, list[tuple[int]]], None],
) -> None:
    for at in range(0, len(keys), _AT_ONCE):
        with file.writing() as db:
            work(db, keys[at : at + _AT_ONCE])


def _let_versions_go(db: sqlite3.Connection, rowids: list[tuple[int]]) -> None:
    db.executemany("DELETE FROM body WHERE rowid = ?", rowids)


def _let_items_go(db: sqlite3.Connection, keys: list[tuple[int]]) -> None:
    """Those that are still gone: one may have been seen again since."""
    still = [
        key
        for key in keys
        if db.execute("SELECT deletion FROM item WHERE key = ?", key).fetchone() == (GONE,)
    ]
    for table, column in (("body", "item"), ("event", "item"), ("item", "key")):
        db.executemany(f"DELETE FROM {table} WHERE {column} = ?", still)
