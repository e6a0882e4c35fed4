"""The vault: everything that Looker showed, as it showed it, with its history.

One vault is one SQLite file is one Looker. The file may be used by any number of threads and
processes at once; nothing that a killed process leaves behind needs repair.

In an extraction::

    with Vault.open(path, create=True) as vault:
        vault.bind(base_url)
        session = vault.sessions.begin("extract", run_id=run_id, parameters={...})
        # a page of a listing whose elements are whole bodies
        items = [item_of("dashboard", raw) for raw in page]
        vault.upsert_many(session, items, pages=[Page("dashboard", "dashboards", 0, 100, 100)])
        # a page of a listing that only names items: they exist, and their bodies are to come
        vault.upsert_many(session, (), pages=[...], seen={"look": ids}, todo={"look": ids})
        # a body by itself, and one that did not come
        vault.upsert_many(session, [item_of("look", body, item_id="5")])
        vault.upsert_many(session, (), failures=[Failed("look", ITEM, "6", 403, "...")])
        vault.listings.record(session, "look", "looks", complete=True, items=2)
        for item_id in vault.listings.absent(session, "look"):
            ...  # look it up; on 404:
            vault.listings.delete(session, "look", item_id, evidence="404 for GET /looks/7")
        vault.make_durable()  # then save the checkpoint
        vault.sessions.end(session, Status.DONE, summary={...})
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from headrace.looker.exceptions import VaultOfAnother
from headrace.looker.vault.contents import (
    CleanupReport,
    Contents,
    pack_changed,
    remove_old_versions,
    upsert,
)
from headrace.looker.vault.file import VaultFile
from headrace.looker.vault.items import Item, utc_text
from headrace.looker.vault.model import ITEM, Failed, Page, UpsertCounts
from headrace.looker.vault.sessions import (
    Failures,
    Listings,
    Progress,
    Sessions,
    add_failures,
    add_pages,
    add_todo,
    drop_todo,
    mark_seen,
    resolve_stored,
)


def _now() -> datetime:
    return datetime.now(UTC)


class Vault:
    """An open vault. Make one with `Vault.open`; safe for threads.

    Attributes:
        path: the file.
        now: the clock.
        sessions: the runs that wrote to it.
        contents: what it holds, and the history.
        listings: how listings ended, what is absent, what is deleted.
        progress: what a killed session need not do again.
        failures: what failed, until it succeeds.
    """

    def __init__(self, file: VaultFile, *, now: Callable[[], datetime] = _now) -> None:
        self.file = file
        self.path = file.path
        self.now = now
        self._now: Callable[[], str] = lambda: utc_text(now())
        self.sessions = Sessions(file, self._now)
        self.contents = Contents(file)
        self.listings = Listings(file, self._now)
        self.progress = Progress(file)
        self.failures = Failures(file, self._now)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        create: bool = False,
        check: bool = True,
        now: Callable[[], datetime] = _now,
    ) -> Self:
        """The vault at `path`.

        Args:
            path: the file.
            create: make it if there is none, in a folder for the user alone.
            check: look at the whole file for damage first (about a second per GB).
            now: the clock.

        Raises:
            VaultMissing: there is none, and `create` is False.
            VaultForeign: the file is something else.
            VaultDamaged: it is not whole; the message names the way out.
            VaultTooNew: a later version of Headrace wrote it.
            VaultUnusable: a folder, no permission, no space.
        """
        return cls(VaultFile(Path(path), create=create, check=check), now=now)

    def bind(self, source: str) -> None:
        """Say which Looker this is; the first word counts, and stays.

        Args:
            source: base URL of the instance.

        Raises:
            VaultOfAnother: the vault holds the content of another.
        """
        with self.file.writing() as db:
            db.execute("INSERT OR IGNORE INTO meta (name, value) VALUES ('source', ?)", (source,))
            holds = db.execute("SELECT value FROM meta WHERE name = 'source'").fetchone()[0]
        if holds != source:
            raise VaultOfAnother(self.path, holds, source)

    @property
    def source(self) -> str:
        """Base URL of the Looker that it holds; empty before the first extraction."""
        row = self.file.query_one("SELECT value FROM meta WHERE name = 'source'")
        return str(row[0]) if row else ""

    def upsert_many(
        self,
        session: int,
        items: Sequence[Item],
        *,
        pages: Iterable[Page] = (),
        failures: Iterable[Failed] = (),
        seen: Mapping[str, Iterable[str]] | None = None,
        todo: Mapping[str, Iterable[str]] | None = None,
        origin: str = "server",
    ) -> UpsertCounts:
        """Store a batch as one short transaction: all of it, or nothing.

        A body that the vault holds already costs a touch of its seen time; a changed one becomes
        the current version beside the older ones. What had failed and is stored now is no failure
        any more, and leaves the to-do list; so does what failed now.

        Args:
            session: where it belongs.
            items: see `item_of`.
            pages: pages whose content is among `items` (or `seen`), so that a killed run does not
                ask for them again.
            failures: what did not come.
            seen: ids by type that a listing showed without a body: they exist.
            todo: ids by type whose bodies are to be fetched.
            origin: `server`, or `pack` for an edit of ours, which says nothing about what is on
                the server.

        Raises:
            VaultBusy, VaultDamaged, VaultUnusable: nothing of the batch was stored.
        """
        pages, failures = list(pages), list(failures)
        with self.file.reading() as db:
            packed = pack_changed(db, items)
        with self.file.writing() as db:
            at = self._now()
            done = upsert(db, session, items, packed, at=at, origin=origin)
            if seen:
                mark_seen(db, session, seen, at=at)
            if todo:
                add_todo(db, session, todo)
            add_pages(db, session, pages)
            keys = [(item.type, item.id) for item in items]
            if origin == "server":
                resolve_stored(db, keys, pages, at=at)
            add_failures(db, session, failures, at=at)
            keys += [(failed.type, failed.key) for failed in failures if failed.kind == ITEM]
            drop_todo(db, session, keys)
        return done

    def remove_old_versions(
        self, *, keep_days: float, keep_versions: int = 1, gone: bool = False, dry_run: bool = False
    ) -> CleanupReport:
        """Remove old history; see `headrace.looker.vault.contents.remove_old_versions`."""
        return remove_old_versions(
            self.file,
            self.now(),
            keep_days=keep_days,
            keep_versions=keep_versions,
            gone=gone,
            dry_run=dry_run,
        )

    def make_durable(self) -> None:
        """Make what was stored survive a loss of power: call it before a checkpoint says so."""
        self.file.make_durable()

    def close(self) -> None:
        """Close the file; a use after that opens it again."""
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()
