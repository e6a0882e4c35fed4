"""What a simulated Looker holds: generated items, and what was changed, made or removed since.

Of an unchanged item nothing is stored; a changed one is kept as its whole body.
"""

from __future__ import annotations

import bisect
import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from headrace.sim.exceptions import SpecError
from headrace.sim.looker.access import BASES, Access, metadata_id
from headrace.sim.looker.bodies import body_of, padded

if TYPE_CHECKING:
    from headrace.sim.looker.settings import Change, LookerSettings

#: The kinds that make up a content type, where that is more than one of the same name.
KINDS_OF: Mapping[str, tuple[str, ...]] = {"dashboard": ("dashboard", "lookml_dashboard")}
#: Kinds that no listing shows, and where they are kept: they are immutable and asked for by id.
LOOSE_KINDS: Mapping[str, str] = {"query": "queries", "merge_query": "merge_queries"}

#: Fields of a body with the text they must have.
Filters = tuple[tuple[str, str], ...]


def kind_of(type_: str, item_id: str) -> str:
    """The kind of an item: LookML dashboards have ids of their own form."""
    return "lookml_dashboard" if type_ == "dashboard" and "::" in item_id else type_


@dataclass
class _Shelf:
    """One kind's items.

    Attributes:
        order: ids as `sorts=id` has them.
        bodies: of what is not as it was generated.
        trash: ids of soft-deleted items, which listings leave out and look-ups show.
        moved: ids by when they were last touched: what comes first where no order is asked for.
    """

    order: list[str]
    bodies: dict[str, bytes] = field(default_factory=dict)
    trash: set[str] = field(default_factory=set)
    moved: dict[str, None] = field(default_factory=dict)
    last: int = 0


def sort_key(item_id: str) -> tuple[int, int, str]:
    """Numbers by value, then names."""
    return (0, int(item_id), "") if item_id.isdecimal() else (1, 0, item_id)


class Library:
    """The content of one instance. Thread-safe.

    Args:
        settings: how much of everything.
    """

    def __init__(self, settings: LookerSettings) -> None:
        self._settings = settings
        self._lock = threading.RLock()
        self._shelves = {
            kind: _Shelf(_ids(kind, settings.counts))
            for kind in settings.counts
            if kind not in LOOSE_KINDS
        }
        self._loose: dict[str, dict[str, dict[str, Any]]] = {}
        #: Fields that the LookML has no more, and those that the database refuses.
        self.unknown_fields: set[str] = set()
        self.failing_fields: set[str] = set()
        self._by_slug: dict[str, dict[str, Any]] = {}
        self._changes = 0
        self._found: dict[tuple[str, bool, Filters], tuple[int, list[str]]] = {}
        self._made = 0
        self._access = Access(self.body)
        for shelf in self._shelves.values():
            shelf.last = max((int(i) for i in shelf.order if i.isdecimal()), default=0)
        for number in range(settings.counts["merge_query"]):
            self._add_merged_tile(number)

    def ids(self, kind: str, *, trash: bool = False) -> list[str]:
        """Ids in the order of `sorts=id`; of what is listed, or of what is in the trash."""
        with self._lock:
            shelf = self._shelf(BASES.get(kind, kind))
            found = [i for i in shelf.order if (i in shelf.trash) is trash]
            return self._access.ids(kind, found) if kind in BASES else found

    def page(
        self,
        kind: str,
        start: int,
        size: int | None,
        *,
        ordered: bool = True,
        trash: bool = False,
        where: Filters = (),
    ) -> list[str]:
        """Ids of one page. Without an order, what was touched last comes first.

        Args:
            kind, start, size: which.
            ordered: by id.
            trash: of what is in the trash instead.
            where: fields with the text they must have.
        """
        with self._lock:
            kind = BASES.get(kind, kind)
            shelf = self._shelf(kind)
            plain = not shelf.trash and not trash and not where
            ids = shelf.order if plain else self._filtered(kind, where, trash=trash)
            if not ordered and shelf.moved:
                known = set(ids)
                first = [i for i in reversed(shelf.moved) if i in known]
                ids = first + [i for i in ids if i not in shelf.moved]
            return ids[start:] if size is None else ids[start : start + size]

    def _filtered(self, kind: str, where: Filters, *, trash: bool) -> list[str]:
        key = (kind, trash, where)
        changes, ids = self._found.get(key, (-1, []))
        if changes != self._changes:
            ids = self.ids(kind, trash=trash)
            if where:
                ids = [i for i in ids if _fits(json.loads(self._body(kind, i)), where)]
            self._found[key] = (self._changes, ids)
        return ids

    def body(self, kind: str, item_id: str) -> bytes | None:
        """The body of an item, in the trash or not; None if there is none."""
        with self._lock:
            if kind in LOOSE_KINDS:
                found = self.loose(LOOSE_KINDS[kind]).get(item_id)
                return None if found is None else _encoded(found)
            if kind in BASES:
                return self._access.body(kind, item_id)
            shelf = self._shelf(kind)
            return self._body(kind, item_id) if _holds(shelf.order, item_id) else None

    def content(self, type_: str) -> dict[str, bytes]:
        """Every listed item of a content type, or what of it listed ones name: what a perfect copy
        holds.
        """
        with self._lock:
            if type_ in LOOSE_KINDS:
                named = {item_id: self.body(type_, item_id) for item_id in self._named(type_)}
                return {item_id: body for item_id, body in named.items() if body is not None}
            return {
                item_id: self.body(kind, item_id) or b""
                for kind in KINDS_OF.get(type_, (type_,))
                for item_id in self.ids(kind)
            }

    def _named(self, kind: str) -> Iterator[str]:
        """Ids of merged queries that tiles show, or of queries that those merge."""
        if kind == "merge_query":
            for body in self.content("dashboard").values():
                tiles = json.loads(body).get("dashboard_elements") or ()
                yield from (t["merge_result_id"] for t in tiles if t.get("merge_result_id"))
        else:
            for body in self.content("merge_query").values():
                yield from (each["query_id"] for each in json.loads(body)["source_queries"])

    def add_query(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Make a query; an identical one is the one that is there."""
        own = {name: value for name, value in fields.items() if name not in ("id", "slug")}
        slug = _slug(json.dumps(own, sort_keys=True).encode())
        with self._lock:
            if slug not in self._by_slug:
                made = self._by_slug[slug] = {**own, "id": self.next_loose_id(), "slug": slug}
                self.loose("queries")[made["id"]] = made
            return self._by_slug[slug]

    def add_merge_query(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Make a merged query; an identical one is the one that is there."""
        known = self.loose("queries")
        sources = [
            {**each, "query_slug": known[str(each["query_id"])].get("slug")}
            for each in fields["source_queries"]
        ]
        made = {**fields, "source_queries": sources, "result_maker_id": self.next_loose_id()}
        identity = _slug(_encoded({**fields, "source_queries": sources}))
        with self._lock:
            return self.loose("merge_queries").setdefault(identity, {**made, "id": identity})

    def _add_merged_tile(self, number: int) -> None:
        """Give a generated dashboard one tile more, which shows a merged query."""
        order = self._shelves["dashboard"].order
        if not order:
            return
        item_id = order[number % len(order)]
        queries = [
            self.add_query(
                {"model": "model_1", "view": "explore_1", "fields": [f"{view}.id", f"{view}.count"],
                 "filters": {f"{view}.id": str(number)}, "limit": "500"}
            )
            for view in ("orders", "users")
        ]  # fmt: skip
        merged = self.add_merge_query(
            {
                "column_limit": "50",
                "sorts": ["orders.count desc"],
                "total": False,
                "vis_config": {"type": "looker_line"},
                "source_queries": [
                    {"name": f"Query {at}", "query_id": query["id"], "merge_fields": [
                        {"field_name": "orders.id", "source_field_name": query["fields"][0]}
                    ]}
                    for at, query in enumerate(queries)
                ],
            }
        )  # fmt: skip
        filterables = [
            {"model": query["model"], "view": query["view"], "name": f"Query {at}", "listen": []}
            for at, query in enumerate(queries)
        ]
        tile = {
            "id": self.next_loose_id(), "dashboard_id": item_id, "title": f"Merged {number + 1}",
            "type": "vis", "look_id": None,
            "merge_result_id": merged["id"],
            "result_maker": {"filterables": filterables, "merge_result_id": merged["id"]},
        }  # fmt: skip
        whole = json.loads(self._body("dashboard", item_id))
        whole["dashboard_elements"].append(tile)
        self.put("dashboard", item_id, _encoded(whole))

    def apply(self, change: Change) -> None:
        """Do what a change says."""
        name = "title" if change.kind in ("dashboard", "look", "board") else "name"
        fields: dict[str, Any] = {name: f"changed after {change.after}"}
        match change.do:
            case "remove":
                self.remove(change.kind, change.id)
            case "trash":
                self.trash(change.kind, change.id)
            case "rename":
                self.edit(change.kind, change.id, **fields)
            case "create":
                self.create(change.kind, fields, change.id)

    def edit(self, kind: str, item_id: str, **fields: Any) -> bytes:
        """Change fields of an item, and its `updated_at` where it has one.

        Raises:
            SpecError: there is no such item.
        """
        with self._lock:
            body = self.body(kind, item_id)
            if body is None:
                raise SpecError("item", f"{kind}:{item_id}", "there is none")
            if kind in BASES:
                self._changes += 1
                return self._access.edit(kind, item_id, fields)
            shelf = self._shelf(kind)
            item = json.loads(body)
            stamp = {"updated_at": self._stamp()} if "updated_at" in item else {}
            encoded = _encoded({**item, **stamp, **fields})
            self._changes += 1
            shelf.bodies[item_id] = encoded
            shelf.moved.pop(item_id, None)
            shelf.moved[item_id] = None
            return encoded

    def put(self, kind: str, item_id: str, body: bytes) -> None:
        """Serve these very bytes as an item, new or not."""
        with self._lock:
            shelf = self._shelf(kind)
            if not _holds(shelf.order, item_id):
                bisect.insort(shelf.order, item_id, key=sort_key)
            shelf.bodies[item_id] = body
            self._changes += 1

    def create(self, kind: str, fields: Mapping[str, Any], item_id: str = "") -> bytes:
        """Make an item; it gets the next id unless it brings one."""
        with self._lock:
            shelf = self._shelf(kind)
            if not item_id:
                shelf.last += 1
                item_id = str(shelf.last)
            now = self._stamp()
            times = {"created_at": now, "updated_at": now} if kind in _TIMED else {}
            identity = {} if kind in ("lookml_model", "connection") else {"id": item_id}
            if kind == "folder":
                identity["content_metadata_id"] = metadata_id(item_id)
            self._access.begin_empty(kind, item_id)
            body = _encoded({**times, **fields, **identity})
            self.put(kind, item_id, body)
            return body

    def trash(self, kind: str, item_id: str) -> None:
        """Soft-delete: gone from listings, still there when looked up."""
        with self._lock:
            self.edit(kind, item_id, deleted=True, deleted_at=self._stamp())
            self._shelf(kind).trash.add(item_id)
            self._changes += 1

    def restore(self, kind: str, item_id: str) -> None:
        """Take an item out of the trash."""
        with self._lock:
            self.edit(kind, item_id, deleted=False, deleted_at=None)
            self._shelf(kind).trash.discard(item_id)
            self._changes += 1

    def remove(self, kind: str, item_id: str) -> bool:
        """Delete for good; whether there was such an item."""
        with self._lock:
            shelf = self._shelf(kind)
            at = bisect.bisect_left(shelf.order, sort_key(item_id), key=sort_key)
            if at == len(shelf.order) or shelf.order[at] != item_id:
                return False
            del shelf.order[at]
            self._changes += 1
            shelf.bodies.pop(item_id, None)
            shelf.trash.discard(item_id)
            shelf.moved.pop(item_id, None)
            return True

    def loose(self, kind: str) -> dict[str, dict[str, Any]]:
        """Objects that are no content of their own, such as queries, by id."""
        with self._lock:
            return self._loose.setdefault(kind, {})

    def next_loose_id(self) -> str:
        """An id for such an object, or for a part of an item."""
        with self._lock:
            self._made += 1
            return str(900_000 + self._made)

    def _body(self, kind: str, item_id: str) -> bytes:
        touched = self._shelves[kind].bodies.get(item_id)
        if touched is not None:
            return touched
        settings = self._settings
        body = body_of(
            settings.seed,
            kind,
            item_id,
            dashboard_bytes=settings.dashboard_bytes,
            explores=settings.counts["explore"],
        )
        size_bytes = settings.big.get(f"{kind}:{item_id}") if settings.big else None
        return padded(body, size_bytes, settings.seed) if size_bytes else body

    def _shelf(self, kind: str) -> _Shelf:
        try:
            return self._shelves[kind]
        except KeyError:
            raise SpecError("kind", kind, f"none of {', '.join(self._shelves)}") from None

    def _stamp(self) -> str:
        return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f+00:00")


_TIMED = ("dashboard", "look", "board", "scheduled_plan", "folder")


def _holds(order: list[str], item_id: str) -> bool:
    at = bisect.bisect_left(order, sort_key(item_id), key=sort_key)
    return at < len(order) and order[at] == item_id


def _ids(kind: str, counts: Mapping[str, int]) -> list[str]:
    return sorted(_made_ids(kind, counts), key=sort_key)


def _made_ids(kind: str, counts: Mapping[str, int]) -> Iterator[str]:
    numbers = range(1, counts[kind] + 1)
    match kind:
        case "lookml_model":
            yield from (f"model_{number}" for number in numbers)
        case "connection":
            yield from ("warehouse" if n == 1 else f"connection_{n}" for n in numbers)
        case "explore":
            models = range(1, counts["lookml_model"] + 1)
            yield from (f"model_{m}::explore_{number}" for m in models for number in numbers)
        case "lookml_dashboard":
            yield from (f"model_1::dashboard_{number}" for number in numbers)
        case _:
            yield from map(str, numbers)


def _fits(item: Mapping[str, Any], where: Filters) -> bool:
    return all(str(item.get(name)) == wanted for name, wanted in where)


def _slug(identity: bytes) -> str:
    """A slug as Looker makes them: 22 letters and digits."""
    return hashlib.sha256(identity).hexdigest()[:22]


def _encoded(item: Mapping[str, Any]) -> bytes:
    return json.dumps(item, separators=(",", ":")).encode()
