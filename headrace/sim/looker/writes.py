"""What a simulated Looker lets one make and change: enough to restore everything into it.

It asks for what Looker asks for (a folder needs a name and a parent that exists, a role its two
sets, a look its query), refuses a second thing of the same name where Looker does, and says so in
Looker's form, field by field.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from headrace.sim.http import Reply, Request
from headrace.sim.looker.access_api import AccessApi
from headrace.sim.looker.library import Library
from headrace.sim.looker.routes import PLURALS, item_key
from headrace.sim.looker.tokens import error_reply

Fields = dict[str, Any]

_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "group": ("name",),
    "permission_set": ("name",),
    "model_set": ("name",),
    "role": ("name", "permission_set_id", "model_set_id"),
    "folder": ("name", "parent_id"),
    "lookml_model": ("name",),
    "look": ("title", "folder_id", "query_id"),
    "dashboard": ("title", "folder_id"),
    "board": ("title",),
    "scheduled_plan": ("name",),
    "user_attribute": ("name", "label", "type"),
    "alert": ("field", "destinations", "comparison_type", "threshold", "cron"),
}
#: Fields that must name something that exists, and its kind.
_REFERENCES: Mapping[str, str] = {
    "user_id": "user",
    "home_folder_id": "folder",
    "permission_set_id": "permission_set",
    "model_set_id": "model_set",
    "folder_id": "folder",
    "parent_id": "folder",
    "dashboard_id": "dashboard",
    "look_id": "look",
    "owner_id": "user",
}
#: Fields that must name something that is no content of its own, and where it is kept.
_LOOSE: Mapping[str, str] = {"query_id": "queries", "merge_result_id": "merge_queries"}
#: What may not be there twice: fields that together are taken once.
_UNIQUE: Mapping[str, tuple[str, ...]] = {
    "group": ("name",),
    "permission_set": ("name",),
    "model_set": ("name",),
    "role": ("name",),
    "folder": ("name", "parent_id"),
    "look": ("title", "folder_id"),
    "dashboard": ("title", "folder_id"),
    "user_attribute": ("name",),
}
#: Parts of a dashboard or board, by the path that makes them: where they stand in the whole.
_PARTS: Mapping[str, tuple[str, str, str]] = {
    "dashboard_elements": ("dashboard", "dashboard_id", "dashboard_elements"),
    "dashboard_filters": ("dashboard", "dashboard_id", "dashboard_filters"),
    "dashboard_layouts": ("dashboard", "dashboard_id", "dashboard_layouts"),
    "board_sections": ("board", "board_id", "board_sections"),
}


class WriteApi:
    """Everything but GET, over a library."""

    def __init__(self, library: Library, access: AccessApi) -> None:
        self._library = library
        self._access = access

    def answer(self, request: Request, pieces: list[str]) -> Reply:
        """The reply to a POST, PUT, PATCH or DELETE."""
        try:
            fields = json.loads(request.body) if request.body else {}
        except ValueError:
            return error_reply(400, "The body is no JSON", request.method.lower(), pieces[0])
        if (of_access := self._access.answer(request, pieces, fields)) is not None:
            return of_access
        if request.method != "DELETE" and pieces[:1] == ["connections"]:
            # Nothing here needs to make one: its secrets are in no vault.
            return error_reply(404, "Not found", request.method.lower(), "connections")
        match request.method, pieces:
            case "POST", [plural] if plural in PLURALS:
                return self._create(PLURALS[plural], plural, fields)
            case "POST", ["queries"]:
                return self._query(fields)
            case "POST", ["merge_queries"]:
                return self._merge_query(fields)
            case "POST", [part] if part in _PARTS:
                return self._add_part(part, fields)
            case "POST", ["board_items"]:
                return self._add_board_item(fields)
            case (("POST" | "PUT" | "PATCH"), ["users", user, credentials]):
                return self._credentials(user, credentials, fields)
            case "PATCH", ["dashboard_layout_components", component_id]:
                return self._move(component_id, fields)
            case _, [("queries" | "merge_queries"), _]:
                return error_reply(404, "Not found", request.method.lower(), "/".join(pieces))
            case ("PATCH", _) | ("PUT", ["alerts", _]) if key := item_key(pieces):
                return self._update(*key, pieces[0], fields)
            case "DELETE", [part, part_id] if part in _PARTS:
                return self._delete_part(part, part_id)
            case "DELETE", _ if key := item_key(pieces):
                return self._delete(*key, pieces[0])
            case _:
                return error_reply(404, "Not found", request.method.lower(), "/".join(pieces))

    def _create(self, kind: str, plural: str, fields: Fields) -> Reply:
        refused = self._refusal(kind, "post", plural, fields)
        if refused:
            return refused
        if kind == "lookml_model":
            return Reply(200, self._library.create(kind, fields, str(fields["name"])))
        own = {name: value for name, value in fields.items() if name != "id"}
        if kind == "dashboard":
            # A new dashboard has an active layout.
            layout = {"id": self._library.next_loose_id(), "type": "newspaper", "active": True}
            layout["dashboard_layout_components"] = []
            parts: Fields = {"dashboard_elements": [], "dashboard_filters": []}
            own = {"deleted": False, "deleted_at": None, **own, **parts}
            own["dashboard_layouts"] = [layout]
        elif kind == "look":
            own = {"deleted": False, "deleted_at": None, **own}
            own["query"] = self._library.loose("queries").get(str(own["query_id"]))
        elif kind == "user":
            names = (own.get("first_name"), own.get("last_name"))
            own["display_name"] = " ".join(str(name) for name in names if name)
        elif kind == "board":
            own = {**own, "board_sections": [], "section_order": []}
        elif kind == "user_attribute":
            own = {"is_system": False, "is_permanent": False, **own}
        elif kind == "scheduled_plan":
            own["title"] = own["name"]
        elif kind == "role":
            for name in ("permission_set", "model_set"):
                found = self._library.body(name, str(own[f"{name}_id"]))
                own[name] = json.loads(found) if found else None
        return Reply(200, self._library.create(kind, own))

    def _update(self, kind: str, item_id: str, plural: str, fields: Fields) -> Reply:
        if self._library.body(kind, item_id) is None:
            return error_reply(404, "Not found", "patch", f"{plural}/:{kind}_id")
        refused = self._refusal(kind, "patch", f"{plural}/:{kind}_id", fields, item_id)
        if refused:
            return refused
        if kind in ("dashboard", "look") and "deleted" in fields:
            turn = self._library.trash if fields.pop("deleted") else self._library.restore
            turn(kind, item_id)
        if kind == "look" and "query_id" in fields:
            fields["query"] = self._library.loose("queries").get(str(fields["query_id"]))
        return Reply(200, self._library.edit(kind, item_id, **fields))

    def _delete(self, kind: str, item_id: str, plural: str) -> Reply:
        if not self._library.remove(kind, item_id):
            return error_reply(404, "Not found", "delete", f"{plural}/:{kind}_id")
        return Reply(204)

    def _refusal(
        self, kind: str, verb: str, path: str, fields: Fields, item_id: str = ""
    ) -> Reply | None:
        """A 422 that names the fields, or None."""
        problems = self._unknown(fields)
        if kind == "alert":
            problems += alert_problems(self._library, verb, fields)
        if verb == "post":
            problems += [
                (name, "missing_field", f"{name} is required")
                for name in _REQUIRED.get(kind, ())
                if fields.get(name) in (None, "")
            ]
        for unique in (_UNIQUE.get(kind, ()), ("slug",)):
            if unique and not problems and all(fields.get(name) for name in unique):
                where = tuple((name, str(fields[name])) for name in unique)
                taken = [i for i in self._library.page(kind, 0, None, where=where) if i != item_id]
                if taken:
                    problems.append((unique[0], "already_exists", f"{unique[0]} is taken"))
        return _invalid(verb, path, problems)

    def _unknown(self, fields: Fields) -> list[tuple[str, str, str]]:
        """Ids in `fields` of what is not here, such as those of another Looker."""
        found = []
        for name in (*_REFERENCES, *_LOOSE):
            named = fields.get(name)
            if named is not None and not self._is_here(name, str(named)):
                found.append((name, "invalid", f"{name} {named} does not exist"))
        return found

    def _is_here(self, name: str, item_id: str) -> bool:
        if name in _LOOSE:
            return item_id in self._library.loose(_LOOSE[name])
        return self._library.body(_REFERENCES[name], item_id) is not None

    def _query(self, fields: Fields) -> Reply:
        if not fields.get("model") or not fields.get("view"):
            return error_reply(422, "Validation Failed", "post", "queries")
        return _json(self._library.add_query(fields))

    def _merge_query(self, fields: Fields) -> Reply:
        sources = fields.get("source_queries") or ()
        problems = [p for source in sources for p in self._unknown(source)]
        if not sources:
            problems = [("source_queries", "missing_field", "source_queries is required")]
        refused = _invalid("post", "merge_queries", problems)
        return refused or _json(self._library.add_merge_query(fields))

    def _add_part(self, part: str, fields: Fields) -> Reply:
        kind, owner, array = _PARTS[part]
        if refused := _invalid("post", part, self._unknown(fields)):
            return refused
        made = {**fields, "id": self._library.next_loose_id()}
        if part == "dashboard_elements" and fields.get("query_id") is not None:
            made["query"] = self._library.loose("queries").get(str(fields["query_id"]))
        if part == "dashboard_elements" and (merged := fields.get("merge_result_id")) is not None:
            made["result_maker"] = {**(made.get("result_maker") or {}), "merge_result_id": merged}
        if part == "board_sections":
            made = {"board_items": [], **made}

        def add(whole: Fields) -> None:
            whole.setdefault(array, []).append(made)
            if part == "dashboard_elements":
                self._lay_out(whole, made)

        changed = self._in_whole(kind, str(fields.get(owner)), add)
        return _json(made) if changed else error_reply(404, "Not found", "post", part)

    def _lay_out(self, dashboard: Fields, element: Fields) -> None:
        """Give a new tile a place of Looker's own choice: below all others."""
        layouts = [layout for layout in dashboard["dashboard_layouts"] if layout.get("active")]
        if layouts:
            components = layouts[0].setdefault("dashboard_layout_components", [])
            below = max((c["row"] + c["height"] for c in components), default=0)
            place = {"row": below, "column": 0, "width": 8, "height": 6, "deleted": False}
            part_id = self._library.next_loose_id()
            components.append({"id": part_id, "dashboard_element_id": element["id"], **place})

    def _move(self, component_id: str, fields: Fields) -> Reply:
        for item_id in self._library.ids("dashboard"):
            whole: Fields = json.loads(self._library.body("dashboard", item_id) or b"{}")
            for layout in whole.get("dashboard_layouts", []):
                for component in layout.get("dashboard_layout_components", []):
                    if str(component["id"]) == component_id:
                        component.update(fields)
                        self._library.edit("dashboard", item_id, **whole)
                        return _json(component)
        return error_reply(404, "Not found", "patch", "dashboard_layout_components/:id")

    def _delete_part(self, part: str, part_id: str) -> Reply:
        kind, _, array = _PARTS[part]
        for item_id in self._library.ids(kind):
            whole: Fields = json.loads(self._library.body(kind, item_id) or b"{}")
            kept = [each for each in whole.get(array, []) if str(each.get("id")) != part_id]
            if len(kept) < len(whole.get(array, [])):
                self._library.edit(kind, item_id, **{array: kept})
                if part == "dashboard_elements":
                    remove_alerts(self._library, part_id)
                return Reply(204)
        return error_reply(404, "Not found", "delete", f"{part}/:id")

    def _add_board_item(self, fields: Fields) -> Reply:
        if refused := _invalid("post", "board_items", self._unknown(fields)):
            return refused
        made = {**fields, "id": self._library.next_loose_id()}
        section_id = str(fields.get("board_section_id"))
        for board in self._library.ids("board"):
            body = self._library.body("board", board)
            sections = json.loads(body or b"{}").get("board_sections", [])
            for section in sections:
                if str(section.get("id")) == section_id:
                    section.setdefault("board_items", []).append(made)
                    self._library.edit("board", board, board_sections=sections)
                    return _json(made)
        return error_reply(404, "Not found", "post", "board_items")

    def _in_whole(self, kind: str, item_id: str, change: Callable[[Fields], object]) -> bool:
        body = self._library.body(kind, item_id)
        if body is None:
            return False
        whole: Fields = json.loads(body)
        change(whole)
        self._library.edit(kind, item_id, **whole)
        return True

    def _credentials(self, user: str, what: str, fields: Fields) -> Reply:
        if self._library.body("user", user) is None:
            return error_reply(404, "Not found", "post", f"users/:user_id/{what}")
        more = {"email": fields["email"]} if "email" in fields else {}
        self._library.edit("user", user, **{what: fields, **more})
        return _json(fields)


def _invalid(verb: str, path: str, problems: list[tuple[str, str, str]]) -> Reply | None:
    """A 422 that names the fields; None if there are no problems."""
    if not problems:
        return None
    url = f"https://cloud.google.com/looker/docs/r/err/4.0/422/{verb}/{path}"
    errors = [
        {"field": field, "code": code, "message": said, "documentation_url": url}
        for field, code, said in problems
    ]
    return error_reply(422, "Validation Failed", verb, path, errors=errors)


def _json(value: object) -> Reply:
    return Reply(200, json.dumps(value, separators=(",", ":")).encode())


def alert_problems(
    library: Library, verb: str, fields: Mapping[str, Any]
) -> list[tuple[str, str, str]]:
    """A tile that is not here, or no tile at all: field, code, message."""
    tile = fields.get("dashboard_element_id")
    named = verb == "post" or "dashboard_element_id" in fields
    if named and (tile is None or not _has_tile(library, str(tile))):
        return [("dashboard_element_id", "invalid", f"tile {tile} does not exist")]
    return []


def _has_tile(library: Library, tile: str) -> bool:
    wanted = f'"{tile}"'.encode()
    for dashboard in library.ids("dashboard"):
        body = library.body("dashboard", dashboard) or b""
        if wanted in body:
            tiles = json.loads(body).get("dashboard_elements") or []
            if any(str(each.get("id")) == tile for each in tiles):
                return True
    return False


def remove_alerts(library: Library, tile: str) -> None:
    """An alert goes with the tile that it watches."""
    where = (("dashboard_element_id", tile),)
    for alert in list(library.page("alert", 0, None, where=where)):
        library.remove("alert", alert)
