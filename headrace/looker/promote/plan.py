"""What a promotion will do, found out by asking both Lookers; nothing is written anywhere there.

An item that was promoted before is compared twice: what it is here with what it was when it was
last promoted, and what it is there with what the promotion left behind. A change here alone is
brought over. A change there was made by a user: it is a conflict, and stays unless the caller says
that it may be overwritten.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from headrace.looker.client import NotFound
from headrace.looker.content_types import content_of
from headrace.looker.elements import objects
from headrace.looker.exceptions import NotPromotable
from headrace.looker.merged_query_ids import merged_queries_of
from headrace.looker.promote.reading import Reading
from headrace.looker.promote.references import Explores, Missing, Owners, explores_of, looks_of
from headrace.looker.restore.api import Api
from headrace.looker.restore.fields import Fields, essence
from headrace.looker.restore.plan import Step
from headrace.looker.restore.state import Entry, RestoreState
from headrace.looker.vault import Row, Vault, id_text
from headrace.stopping import STOP, StopEvent

if TYPE_CHECKING:
    from headrace.looker.client import LookerClient


class Change(StrEnum):
    """What becomes of one item."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REMOVED = "removed"  # it was promoted and is not in the folder any more
    CONFLICT = "conflict"  # another user's work is there
    BLOCKED = "blocked"  # it depends on something that is not there
    UNREAD = "unread"  # it did not come


#: What is written; the rest stays as it is there.
WRITTEN = (Change.CREATED, Change.CHANGED)
#: What cannot be brought over as things are.
_OPEN = (Change.CONFLICT, Change.BLOCKED, Change.UNREAD)


@dataclass(frozen=True, slots=True)
class PlannedItem:
    """One item, what becomes of it, and why.

    Args:
        type, id, name: in the Looker that it comes from.
        change: what becomes of it.
        new_id: of the item there; empty if there is none.
        why: in words; empty where there is nothing to say.
        step: of the restore.
        taken: `new_id` is an item that was not promoted, which it replaces.
    """

    type: str
    id: str
    name: str
    change: Change
    new_id: str = ""
    why: str = ""
    step: Step | None = None
    taken: bool = False

    @property
    def will_be_there(self) -> bool:
        """Whether it is there, or will be, once the plan is carried out."""
        return self.change in WRITTEN or bool(self.new_id and not self.taken)


@dataclass
class PromotionPlan:
    """What will be done.

    Args:
        source, target: the two Lookers.
        folder, name: the folder, by its id here.
        items: in the order in which they are made.
        missing: what is not there.
        given: ids there of what is not promoted itself: the parent folder, owners.
        unchecked: what could not be looked at.
    """

    source: str
    target: str
    folder: str
    name: str
    session: int
    items: list[PlannedItem] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    given: dict[tuple[str, str], str] = field(default_factory=dict)
    unchecked: list[str] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, Counter[Change]]:
        """Changes by type."""
        found: dict[str, Counter[Change]] = {}
        for item in self.items:
            found.setdefault(item.type, Counter())[item.change] += 1
        return found

    def of(self, *changes: Change) -> list[PlannedItem]:
        """The items of some changes."""
        return [item for item in self.items if item.change in changes]

    @property
    def open(self) -> list[PlannedItem]:
        """What cannot be brought over as things are."""
        return self.of(*_OPEN)


def mark_kind(type_: str) -> str:
    """Under which the state of restores keeps the mark of a promoted item."""
    return f"{type_}.promoted"


def fingerprint(type_: str, body: Fields) -> bytes:
    """A digest of what makes an item what it is; being looked at does not change it."""
    text = json.dumps(essence(type_, body), sort_keys=True)
    return hashlib.sha256(text.encode()).digest()


class Planner:
    """Plans one promotion.

    Args:
        vault: of the Looker that the folder is in, just read.
        source, target: the two Lookers.
        reading: what was read.
        into: id of the folder there in which the folder is or will be; found by its path if empty.
        overwrite: conflicts are changes.
        stop: looked at before each item.
    """

    def __init__(
        self,
        vault: Vault,
        source: LookerClient,
        target: LookerClient,
        reading: Reading,
        *,
        into: str = "",
        overwrite: bool = False,
        stop: StopEvent = STOP,
    ) -> None:
        self._vault, self._reading, self._into, self._stop = vault, reading, into, stop
        self._overwrite = overwrite
        self._here, self._there = Api(source), Api(target)
        self._state = RestoreState(vault, target.source)
        self._explores = Explores(self._there)
        self._owners = Owners(self._here, self._there)
        self._missing: dict[tuple[str, str], Missing] = {}
        self._items: dict[tuple[str, str], PlannedItem] = {}
        top = self._body("folder", reading.folders[0])
        self._plan = PromotionPlan(
            source.source, target.source, reading.folders[0], str(top.get("name")), reading.session
        )

    def plan(self) -> PromotionPlan:
        """Ask, and compare.

        Raises:
            NotPromotable: the folder is a person's own, or holds those.
            RequestError: one of the Lookers does not answer.
        """
        self._find_parent()
        for type_ in ("folder", "look", "dashboard"):
            for row in self._rows(type_):
                self._stop.check()
                self._items[type_, row.id] = self._planned(row)
        for item in self._removed():
            self._items[item.type, item.id] = item
        for (type_, item_id), why in self._reading.unread.items():
            unread = PlannedItem(type_, item_id, item_id, Change.UNREAD, why=why)
            self._items.setdefault((type_, item_id), unread)
        self._plan.items = list(self._items.values())
        self._plan.missing = list(self._missing.values())
        self._plan.unchecked = self._explores.unchecked
        return self._plan

    def _rows(self, type_: str) -> Iterator[Row]:
        """What the reading showed, folders below their parents."""
        if type_ == "folder":
            rows = (self._vault.contents.row(type_, folder) for folder in self._reading.folders)
            yield from (row for row in rows if row is not None)
            return
        for folder in self._reading.folders:
            for row in self._vault.contents.rows(type_, folder=folder):
                if row.seen_session == self._reading.session:
                    yield row

    def _body(self, type_: str, item_id: str) -> Fields:
        body: Fields = json.loads(self._vault.contents.body(type_, item_id).body)
        return body

    # -- where it goes --------------------------------------------------------------------------

    def _find_parent(self) -> None:
        """Find the folder there in which the folder is or will be."""
        top = self._body("folder", self._plan.folder)
        for folder in self._reading.folders:
            body = self._body("folder", folder)
            if body.get("is_personal") or body.get("is_users_root"):
                raise NotPromotable(
                    folder,
                    str(body.get("name")),
                    "is a person's own, or holds those",
                    "Promote a shared folder; move there what others are to have",
                )
        parent = id_text(top.get("parent_id"))
        if parent is None and self._into:
            reason = "is a root, which lies in no other folder"
            hint = "Leave --into out, or promote the folders in it"
            raise NotPromotable(self._plan.folder, self._plan.name, reason, hint)
        if self._into:
            there = self._there.item("folder", self._into)
            found = self._into if there is not None else None
            path = self._into
        elif parent is None:
            root = self._root(top)
            if root is None:
                self._lack("folder", str(top.get("name")))
            else:
                self._plan.given["folder", self._plan.folder] = root
            return
        else:
            found, path = self._by_path(parent)
        if found is None:
            self._lack("folder", path)
        elif parent is not None:
            self._plan.given["folder", parent] = found

    def _by_path(self, folder: str) -> tuple[str | None, str]:
        """The folder there of the same names from the root on, and these names."""
        chain: list[Fields] = []
        above: str | None = folder
        while above is not None and len(chain) < _DEEPEST:
            body = self._here.get(content_of("folder").item_path(above))
            chain.append(body)
            above = id_text(body.get("parent_id"))
        chain.reverse()
        path = "/".join(str(body.get("name")) for body in chain)
        found = self._root(chain[0])
        for body in chain[1:]:
            if found is not None:
                found = self._child(found, str(body.get("name")))
        return found, path

    def _root(self, body: Fields) -> str | None:
        for each in objects(self._there.get("/folders", {"fields": "id,name,parent_id"})):
            if each.get("parent_id") is None and each.get("name") == body.get("name"):
                return id_text(each.get("id"))
        return None

    def _child(self, parent: str, name: str) -> str | None:
        query = {"name": name, "parent_id": parent, "fields": "id,name,parent_id"}
        for each in objects(self._there.get("/folders/search", query)):
            # The search folds case and knows wildcards; a name is a name.
            if each.get("name") == name and str(each.get("parent_id")) == parent:
                return id_text(each.get("id"))
        return None

    def _new_folder(self, folder: str | None) -> str | None:
        """The id there of a folder; None while it is still to be made."""
        if folder is None:
            return None
        if (given := self._plan.given.get(("folder", folder))) is not None:
            return given
        planned = self._items.get(("folder", folder))
        return planned.new_id or None if planned else None

    # -- one item -------------------------------------------------------------------------------

    def _planned(self, row: Row) -> PlannedItem:
        entry = self._state.entry(row.type, row.id)
        item = PlannedItem(
            row.type,
            row.id,
            row.name or row.id,
            Change.UNREAD,
            entry.new_id if entry else "",
            self._reading.unread.get((row.type, row.id), ""),
        )
        if (row.type, row.id) in self._reading.unread:
            return item
        body = self._body(row.type, row.id)
        lacks = list(self._lacking(row.type, row.id, body))
        self._find_owner(row.type, row.id, body)
        if lacks:
            return replace(item, change=Change.BLOCKED, why="; ".join(lacks))
        step = Step(row.type, row.id, row.name or "", row.hash)
        item = replace(item, change=Change.CREATED, new_id="", step=step)
        there = self._there.item(row.type, entry.new_id) if entry else None
        if entry is not None and there is not None:
            return self._compared(item, body, entry, json.loads(there))
        if row.type == "folder":
            return self._folder(item, body)
        item = self._placed(item, body)
        if entry is not None and item.change is Change.CREATED:
            return replace(item, why="it was promoted, and is gone there")
        return item

    def _compared(
        self, item: PlannedItem, body: Fields, entry: Entry, there: Fields
    ) -> PlannedItem:
        """An item that was promoted, or restored, before."""
        item = replace(item, new_id=entry.new_id, why=_of_alerts(there))
        mark = self._state.entry(mark_kind(item.type), item.id)
        if mark is None or not entry.complete:
            # A run was cut off, or a restore made it.
            return replace(item, change=Change.CHANGED, why=_joined("to be completed", item.why))
        was_here, was_there = mark.hash[:_DIGEST], mark.hash[_DIGEST:]
        moved = item.type == "folder" and item.id == self._plan.folder and self._moved(body, there)
        here = fingerprint(item.type, body) != was_here or moved
        gone = bool(there.get("deleted"))
        if fingerprint(item.type, there) == was_there and not gone:
            if here:
                return replace(item, change=Change.CHANGED)
            left_out = self._state.failure(item.type, item.id) or ""
            return replace(item, change=Change.UNCHANGED, why=left_out, step=None)
        why = "it lies in the trash there" if gone else "it was changed there"
        return self._conflict(item, f"{why} since it was promoted")

    def _moved(self, body: Fields, there: Fields) -> bool:
        parent = self._plan.given.get(("folder", str(body.get("parent_id"))))
        return parent is not None and id_text(there.get("parent_id")) != parent

    def _folder(self, item: PlannedItem, body: Fields) -> PlannedItem:
        given = self._plan.given.get(("folder", item.id))
        parent = self._new_folder(id_text(body.get("parent_id")))
        found = given or (self._child(parent, str(body.get("name"))) if parent else None)
        if found is None:
            return item
        return replace(item, change=Change.UNCHANGED, new_id=found, step=None)

    def _placed(self, item: PlannedItem, body: Fields) -> PlannedItem:
        """A look or dashboard that was not promoted before: does its place belong to another?"""
        if self._state.intended(item.type, item.id):
            return item  # a run was cut off here: what is there may be what it made
        folder = self._new_folder(id_text(body.get("folder_id")))
        slug = id_text(body.get("slug")) if item.type == "dashboard" else None
        if slug is not None:
            for each in self._found("/dashboards/search", {"slug": slug}):
                if each.get("slug") == slug and not self._ours(item.type, each):
                    if folder is not None and id_text(each.get("folder_id")) == folder:
                        return self._taken(item, each, f"a dashboard with the slug {slug!r}")
                    why = f"without its slug {slug!r}, which dashboard {each.get('id')} has there"
                    item = replace(item, why=why)
        if folder is not None:
            title = str(body.get("title"))
            query = {"title": title, "folder_id": folder}
            for each in self._found(f"/{item.type}s/search", query):
                same = each.get("title") == title and id_text(each.get("folder_id")) == folder
                if same and not self._ours(item.type, each):
                    return self._taken(item, each, f"a {item.type} of that title")
        return item

    def _found(self, path: str, query: dict[str, str]) -> Sequence[Fields]:
        fields = "id,title,slug,folder_id" if path.startswith("/dash") else "id,title,folder_id"
        return objects(self._there.get(path, {**query, "fields": fields, "limit": "100"}))

    def _ours(self, type_: str, there: Fields) -> bool:
        return self._state.taken_by(type_, str(there.get("id"))) is not None

    def _taken(self, item: PlannedItem, there: Fields, what: str) -> PlannedItem:
        item = replace(item, new_id=str(there.get("id")), taken=True)
        return self._conflict(item, f"{what} is there already (id {there.get('id')})")

    def _conflict(self, item: PlannedItem, why: str) -> PlannedItem:
        if self._overwrite:
            why = _joined(f"{why}, and is overwritten", item.why)
            return replace(item, change=Change.CHANGED, why=why)
        return replace(item, change=Change.CONFLICT, why=why, step=None)

    # -- what it depends on -----------------------------------------------------------------------

    def _lacking(self, type_: str, item_id: str, body: Fields) -> Iterator[str]:
        """What it depends on that is not there, in words."""
        about = f"{type_} {item_id}"
        if any(each.kind == "folder" for each in self._missing.values()):
            yield "the folder that it would be in is not there"
            return
        if type_ == "folder":
            return
        for explore in explores_of(self._vault, type_, body):
            missing = self._explores.missing(explore)
            if missing is not None:
                yield self._lack(missing.kind, missing.name, about)
        if type_ != "dashboard":
            return
        for merged in merged_queries_of(body):
            if self._vault.contents.row("merge_query", merged) is None:
                yield f"merged query {merged} did not come"
        for look in looks_of(body):
            planned = self._items.get(("look", look))
            if planned is None and self._state.entry("look", look) is None:
                yield self._lack("look", look, about)
            elif planned is not None and not planned.will_be_there:
                yield f"look {look} is not promoted"

    def _lack(self, kind: str, name: str, about: str = "", *, blocks: bool = True) -> str:
        missing = self._missing.setdefault((kind, name), Missing(kind, name, blocks=blocks))
        if about and about not in missing.needed_by:
            missing.needed_by.append(about)
        return f"{kind} {name} is not there"

    def _find_owner(self, type_: str, item_id: str, body: Fields) -> None:
        """An owner who is not there is named; the caller will own the item."""
        owner = id_text(body.get("user_id"))
        if owner is None or ("user", owner) in self._plan.given:
            return
        new_id, who = self._owners.there(owner)
        if new_id is None:
            self._lack("user", who, f"{type_} {item_id}", blocks=False)
        else:
            self._plan.given["user", owner] = new_id

    # -- what is not in the folder any more -----------------------------------------------------

    def _removed(self) -> Iterator[PlannedItem]:
        """Looks and dashboards that were promoted from here and are not here any more."""
        folders = self._folders_of_before()
        for type_ in ("look", "dashboard"):
            for folder in folders:
                for row in self._vault.contents.rows(type_, folder=folder, deleted=True):
                    if (type_, row.id) not in self._items:
                        yield from self._if_removed(row)

    def _folders_of_before(self) -> list[str]:
        """The folders in and below this one, with those that the vault holds and that are gone."""
        below = defaultdict[str | None, list[str]](list)
        for row in self._vault.contents.rows("folder", deleted=True):
            below[id_text(self._body("folder", row.id).get("parent_id"))].append(row.id)
        folders = list(self._reading.folders)
        for folder in folders:  # it grows
            folders += [each for each in below[folder] if each not in folders]
        return folders

    def _if_removed(self, row: Row) -> Iterator[PlannedItem]:
        if self._state.entry(mark_kind(row.type), row.id) is None:
            return
        entry = self._state.entry(row.type, row.id)
        there = self._there.item(row.type, entry.new_id) if entry else None
        if entry is None or there is None or json.loads(there).get("deleted"):
            return
        why = "it is gone in the folder that it was promoted from"
        try:
            now = self._here.get(content_of(row.type).item_path(row.id))
        except NotFound:
            pass  # what is gone for good
        else:
            folder = id_text(now.get("folder_id"))
            if not now.get("deleted"):
                with_folder = folder == row.folder
                why = "its folder was moved" if with_folder else f"it was moved to folder {folder}"
        yield PlannedItem(
            row.type, row.id, row.name or row.id, Change.REMOVED, entry.new_id, why=why
        )


def _of_alerts(there: Fields) -> str:
    """What a write takes along: tiles are made again, and alerts hang on the old ones."""
    tiles = objects(there.get("dashboard_elements"))
    count = sum(int(tile.get("alert_count") or 0) for tile in tiles)
    return f"{count} alerts on its tiles there end" if count else ""


def _joined(*words: str) -> str:
    return "; ".join(word for word in words if word)


_DIGEST = hashlib.sha256().digest_size
#: Folders within folders; a ring of them ends here.
_DEEPEST = 50
