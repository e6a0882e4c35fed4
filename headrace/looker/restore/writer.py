"""How an item of each type is made, changed, and found under its name, parts included.

The parts of dashboards and boards are made each by a request of its own, in the order in which they
are shown, so that no request is needed to sort them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.looker.client import NotFound
from headrace.looker.content import content_of
from headrace.looker.exceptions import NotRestorable
from headrace.looker.restore.fields import (
    LEFT_OUT,
    Fields,
    components,
    known_only,
    objects,
    ordered,
    places,
    to_send,
)
from headrace.looker.restore.state import Ids
from headrace.looker.vault import id_text
from headrace.wire.exceptions import BadAnswer, RequestRefused

if TYPE_CHECKING:
    from headrace.looker.client import LookerClient

    pass


class Api:
    """JSON in and out of a client. Every request takes a permit of the Looker's own quota."""

    def __init__(self, client: LookerClient) -> None:
        self.client = client

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """What is there.

        Raises:
            NotFound: nothing is.
            BadAnswer: no JSON.
        """
        return _parsed(self.client.ask(path, query), path)

    def item(self, type_: str, item_id: str) -> bytes | None:
        """The body of an item; None if there is none."""
        try:
            return self.client.ask(content_of(type_).item_path(item_id))
        except NotFound:
            return None

    def write(self, method: str, path: str, kind: str, fields: Fields) -> Fields:
        """POST or PATCH `fields`; the answer.

        If the server refuses fields that this version does not know, the known ones go alone.

        Raises:
            RequestRefused: the server refuses it.
        """
        try:
            return self._object(method, path, fields)
        except RequestRefused as error:
            known = known_only(kind, fields)
            if known == fields or error.status not in (400, 422):
                raise
        return self._object(method, path, known)

    def put(self, method: str, path: str, value: Any) -> None:
        """Send a value whose answer does not matter."""
        self.client.send(method, path, _encoded(value))

    def delete(self, path: str) -> None:
        """Remove; what is not there is no error."""
        try:
            self.client.send("DELETE", path)
        except NotFound:
            return

    def _object(self, method: str, path: str, fields: Fields) -> Fields:
        answer = _parsed(self.client.send(method, path, _encoded(fields)), path)
        if not isinstance(answer, dict):
            raise BadAnswer("the answer is no object", product=f"{method} {path}", status=200)
        return answer


def id_from_answer(answer: Fields, about: str, *, name: str = "id") -> str:
    """The id in an answer.

    Raises:
        BadAnswer: there is none.
    """
    found = id_text(answer.get(name))
    if found is None:
        raise BadAnswer(f"the answer names no {name}", product=about, status=200)
    return found


def _encoded(value: Any) -> bytes:
    # ASCII, so that a lone surrogate goes back as the escape that it came as.
    return json.dumps(value, separators=(",", ":")).encode()


def _parsed(body: bytes, path: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadAnswer("the answer is no JSON", product=path, status=200) from error


_PATHS: Mapping[str, str] = {
    "user": "/users",
    "group": "/groups",
    "permission_set": "/permission_sets",
    "model_set": "/model_sets",
    "role": "/roles",
    "folder": "/folders",
    "lookml_model": "/lookml_models",
    "look": "/looks",
    "dashboard": "/dashboards",
    "board": "/boards",
    "scheduled_plan": "/scheduled_plans",
}
#: What a person would know it by, within which Looker keeps it unique, or we look for it.
_NATURAL: Mapping[str, tuple[str, ...]] = {
    "group": ("name",),
    "permission_set": ("name",),
    "model_set": ("name",),
    "role": ("name",),
    "folder": ("name", "parent_id"),
    "look": ("title", "folder_id"),
    "dashboard": ("title", "folder_id"),
    "board": ("title",),
    "scheduled_plan": ("name", "dashboard_id", "look_id"),
}
_FOUND_AT_MOST = "100"
#: How Looker refuses a value.
_INVALID = (400, 409, 422)
_ROOTS = ("is_shared_root", "is_users_root", "is_embed_shared_root", "is_embed_users_root")


class Writer:
    """Makes and changes items at the target.

    Args:
        api: of the target.
        ids: which id is which there.
        enable_schedules: send a schedule into another Looker as enabled as it is in the vault.

    Attributes:
        left_out: what could not be carried over since `begin`, in words.
    """

    def __init__(self, api: Api, ids: Ids, *, enable_schedules: bool) -> None:
        self._api = api
        self._ids = ids
        self._enable_schedules = enable_schedules
        self.left_out: list[str] = []
        self._parts = Parts(api, ids, self._leave_out)
        self._roots: list[Fields] | None = None

    def begin(self) -> None:
        """Begin with another item."""
        self.left_out.clear()

    def _leave_out(self, what: str) -> None:
        if what not in self.left_out:
            self.left_out.append(what)

    def fields(self, type_: str, body: Fields) -> Fields:
        """What is sent of a body, every reference as it is at the target.

        Raises:
            NeedsAnother: something that it refers to is not there.
            NotRestorable: what it rests on is not in any body.
        """
        self._parts.check(body)
        fields = to_send(type_, body)
        if not fields.get("slug"):
            fields.pop("slug", None)
        if type_ in ("look", "scheduled_plan"):
            fields = self._with_query(type_, fields, body)
        if type_ == "scheduled_plan":
            fields["scheduled_plan_destination"] = [
                {k: v for k, v in each.items() if k not in _OF_DESTINATION}
                for each in body.get("scheduled_plan_destination") or ()
            ]
        if type_ in ("look", "dashboard") and fields.get("folder_id") is None:
            folder = body.get("folder") or body.get("space") or {}
            fields["folder_id"] = id_text(folder.get("id"))
        return self._ids.translated(fields, self._leave_out)

    def _with_query(self, type_: str, fields: Fields, body: Fields) -> Fields:
        if type_ == "look":
            fields.pop("query_id", None)
            if not body.get("query"):
                raise NotRestorable("its body has no query: it came from a listing")
        elif fields.get("query_id") is not None and not self._ids.same:
            raise NotRestorable("it sends a query, which is in no body")
        return fields

    def create(self, type_: str, fields: Fields, body: Fields) -> str:
        """Make it, without its parts; its id there.

        Raises:
            RequestRefused: the server refuses it, for example since the name is taken.
        """
        if type_ == "scheduled_plan" and not self._ids.same and not self._enable_schedules:
            fields = {**fields, "enabled": False}
        answer = self._write("POST", _PATHS[type_], type_, self._complete(type_, fields, body))
        name = "name" if type_ == "lookml_model" else "id"
        return id_from_answer(answer, f"the new {type_}", name=name)

    def update(self, type_: str, new_id: str, fields: Fields, body: Fields) -> None:
        """Give it the fields of the vault, and take it out of the trash if it lies there."""
        if type_ in ("look", "dashboard"):
            fields = {**fields, "deleted": False}
        elif type_ == "board":
            fields = {**fields, "deleted_at": None}
        elif type_ == "scheduled_plan" and not self._ids.same and not self._enable_schedules:
            # Switched off when it came, and switched on, if at all, by its users there.
            fields = {name: value for name, value in fields.items() if name != "enabled"}
        path = content_of(type_).item_path(new_id)
        sent = self._complete(type_, fields, body)
        if sent:
            self._write("PATCH", path, type_, sent)

    def _write(self, method: str, path: str, type_: str, fields: Fields) -> Fields:
        """Send it; without its slug if Looker takes it only so."""
        try:
            return self._api.write(method, path, type_, fields)
        except RequestRefused as refusal:
            slug = fields.get("slug")
            if type_ != "dashboard" or not slug or refusal.status not in _INVALID:
                raise
            rest = {name: value for name, value in fields.items() if name != "slug"}
        answer = self._api.write(method, path, type_, rest)
        self._leave_out(f"the slug {slug!r}, which is taken there or refused")
        return answer

    def fill(self, type_: str, new_id: str, body: Fields, *, fresh: bool) -> None:
        """Make its parts; those that an old one had are removed first."""
        if type_ == "dashboard":
            self._parts.of_dashboard(new_id, body, fresh=fresh)
        elif type_ == "board":
            self._parts.of_board(new_id, body, fresh=fresh)
        elif type_ == "user":
            self._credentials(new_id, body, fresh=fresh)

    def named(self, type_: str, fields: Fields, body: Fields) -> str | None:
        """The id of the item that has the same name at the same place there, if there is one."""
        if type_ == "lookml_model":
            return str(body["name"]) if self._api.item(type_, str(body["name"])) else None
        if type_ == "user":
            return self._user(body)
        wanted = {name: fields.get(name) for name in _NATURAL[type_]}
        query = {name: str(v) for name, v in wanted.items() if v is not None}
        if type_ == "scheduled_plan":
            found = self._api.get("/scheduled_plans", {"all_users": "true"})
        else:
            found = self._search(f"{_PATHS[type_]}/search", query)
        for each in found:
            # The search folds case and knows wildcards; a name is a name.
            if all(_text(each.get(name)) == _text(value) for name, value in wanted.items()):
                return id_text(each.get("id"))
        return None

    def _user(self, body: Fields) -> str | None:
        """By email; else one without any email who has the same names: it was made by a run that
        was killed before it gave the email."""
        email = _email(body).casefold()
        names = ("first_name", "last_name")
        if email:
            for user in self._search("/users/search", {"email": email}):
                if _email(user).casefold() == email:
                    return id_text(user.get("id"))
        query = {name: str(body[name]) for name in names if body.get(name)}
        for user in self._search("/users/search", query) if query else ():
            if not _email(user) and all(user.get(name) == body.get(name) for name in names):
                return id_text(user.get("id"))
        return None

    def root(self, body: Fields) -> str | None:
        """The folder there that is what this one is, if it is one that Looker makes itself."""
        if body.get("is_personal"):
            # Looker makes it with its user.
            owner = self._ids.new("user", body.get("creator_id"))
            return id_text(self._api.get(f"/users/{owner}").get("personal_folder_id"))
        if body.get("parent_id") is not None:
            return None
        if self._roots is None:
            folders = self._api.get("/folders")
            self._roots = [folder for folder in folders if folder.get("parent_id") is None]
        flags = [flag for flag in _ROOTS if body.get(flag)]
        for root in self._roots:
            if any(root.get(flag) for flag in flags):
                return id_text(root.get("id"))
        for root in self._roots:
            if root.get("name") == body.get("name"):
                return id_text(root.get("id"))
        name = body.get("name")
        raise NotRestorable(f"it is a root folder, and there is no root called {name!r} there")

    def _complete(self, type_: str, fields: Fields, body: Fields) -> Fields:
        if type_ == "look":
            return {**fields, "query_id": self._parts.query(body["query"])}
        return fields

    def _credentials(self, new_id: str, body: Fields, *, fresh: bool) -> None:
        """An email to log in with; Looker sends no mail by itself for it."""
        email = _email(body)
        if email and isinstance(body.get("credentials_email"), dict):
            sent = {"email": email}
            method = "POST" if fresh else "PATCH"
            self._api.put(method, f"/users/{new_id}/credentials_email", sent)

    def _search(self, path: str, query: Mapping[str, str]) -> list[Any]:
        found = self._api.get(path, {**query, "limit": _FOUND_AT_MOST})
        return found if isinstance(found, list) else []


_OF_DESTINATION = ("id", "scheduled_plan_id", "looker_recipient")


def _email(body: Mapping[str, Any]) -> str:
    credentials = body.get("credentials_email")
    inner = credentials.get("email") if isinstance(credentials, dict) else None
    return str(inner or body.get("email") or "")


def _text(value: object) -> str | None:
    return None if value is None else str(value)


_LISTENING = ("model", "view", "name", "listen")


class Parts:
    """Makes what stands inside of an item.

    Args:
        api: of the target.
        ids: which id is which there.
        leave_out: called with each part that cannot be carried over, in words.
    """

    def __init__(self, api: Api, ids: Ids, leave_out: Callable[[str], object]) -> None:
        self._api = api
        self._ids = ids
        self._leave_out = leave_out

    def check(self, body: Fields) -> None:
        """Look for what tiles and items of a board need, before anything is made.

        Raises:
            NeedsAnother: it is not there.
        """
        tiles = objects(body.get("dashboard_elements"))
        sections = objects(body.get("board_sections"))
        items = [item for section in sections for item in objects(section.get("board_items"))]
        for part in (*tiles, *items):
            for name, type_ in (("look_id", "look"), ("dashboard_id", "dashboard")):
                # A tile names the dashboard that it is of, which is about to be made.
                if part.get(name) is not None and not (part in tiles and name == "dashboard_id"):
                    self._ids.new(type_, part[name])

    def query(self, body: Mapping[str, Any]) -> str:
        """Make a query; its id. A query cannot be changed, so that a new one does no harm."""
        answer = self._api.write("POST", "/queries", "query", to_send("query", body))
        return id_from_answer(answer, "a query")

    def of_dashboard(self, new_id: str, body: Fields, *, fresh: bool) -> None:
        """Filters, tiles, and where the tiles stand.

        Args:
            new_id: of the dashboard at the target.
            body: of the vault.
            fresh: it was made just now and has no parts yet.
        """
        if not fresh:
            there = self._api.get(f"/dashboards/{new_id}")
            for kind in ("dashboard_elements", "dashboard_filters"):
                for part in objects(there.get(kind)):
                    self._api.delete(f"/{kind}/{part['id']}")
        filters: dict[str, str] = {}
        for part in objects(body.get("dashboard_filters")):
            fields = {**to_send("dashboard_filter", part), "dashboard_id": new_id}
            made = self._api.write("POST", "/dashboard_filters", "dashboard_filter", fields)
            filters[str(part.get("id"))] = id_from_answer(made, "a filter")
        tiles: dict[str, str] = {}
        for part in objects(body.get("dashboard_elements")):
            if (why := self._cannot_be_made(part)) is not None:
                self._leave_out(f"tile {_title(part)!r} rests on {why}")
            else:
                tiles[str(part.get("id"))] = self._element(new_id, part, filters)
        where = places(body)
        if where:
            self._place(new_id, {tiles[tile]: p for tile, p in where.items() if tile in tiles})

    def of_board(self, new_id: str, body: Fields, *, fresh: bool) -> None:
        """Sections, and what stands in them."""
        if not fresh:
            there = self._api.get(f"/boards/{new_id}")
            for section in objects(there.get("board_sections")):
                self._api.delete(f"/board_sections/{section['id']}")
        for section in ordered(body.get("board_sections"), body.get("section_order")):
            fields = {**to_send("board_section", section), "board_id": new_id}
            made = self._api.write("POST", "/board_sections", "board_section", fields)
            section_id = id_from_answer(made, "a section of a board")
            for item in ordered(section.get("board_items"), section.get("item_order")):
                sent = self._ids.translated(to_send("board_item", item), self._leave_out)
                sent["board_section_id"] = section_id
                self._api.write("POST", "/board_items", "board_item", sent)

    def _cannot_be_made(self, part: Fields) -> str | None:
        """What a tile rests on that only the Looker that it comes from knows; None if nothing."""
        if self._ids.same:
            return None
        maker = part.get("result_maker") or {}
        for name, what in LEFT_OUT["dashboard_element"].items():
            if part.get(name) is not None or maker.get(name) is not None:
                return what
        if part.get("query") or maker.get("query"):
            return None
        if part.get("query_id") is not None or maker.get("query_id") is not None:
            return "a query, which is in no body"
        return "a query of the SQL Runner" if maker.get("sql_query_id") is not None else None

    def _element(self, dashboard: str, part: Fields, filters: Mapping[str, str]) -> str:
        fields = to_send("dashboard_element", part)
        for name in ("query_id", "dashboard_id", "filter_id"):
            fields.pop(name, None)
        fields = self._ids.translated(fields, self._leave_out)
        fields["dashboard_id"] = dashboard
        old = part.get("filter_id")
        if str(old) in filters:
            fields["filter_id"] = filters[str(old)]
        elif old is not None:
            self._leave_out(f"the filter {old} of tile {_title(part)!r}, which is in no body")
        if self._ids.same:
            fields |= {k: part[k] for k in LEFT_OUT["dashboard_element"] if part.get(k) is not None}
        maker = part.get("result_maker") or {}
        query = part.get("query") or maker.get("query")
        if query:
            fields["query_id"] = self.query(query)
        elif part.get("query_id") is not None:
            fields["query_id"] = part["query_id"]  # the same Looker: see `_cannot_be_made`
        if "result_maker" in fields:
            listening = [
                {name: each[name] for name in _LISTENING if name in each}
                for each in objects(maker.get("filterables"))
            ]
            fields["result_maker"] = {"filterables": listening}
        answer = self._api.write("POST", "/dashboard_elements", "dashboard_element", fields)
        return id_from_answer(answer, "a tile")

    def _place(self, dashboard: str, where: Mapping[str, Fields]) -> None:
        """Looker gave each tile a place of its own choice; put it where it was."""
        there = self._api.get(f"/dashboards/{dashboard}")
        for component in components(there):
            place = where.get(str(component.get("dashboard_element_id")))
            if place and any(component.get(name) != value for name, value in place.items()):
                self._api.put("PATCH", f"/dashboard_layout_components/{component['id']}", place)


def _title(part: Fields) -> str:
    return str(part.get("title") or part.get("title_text") or part.get("id"))
