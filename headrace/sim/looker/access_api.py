"""The simulated Looker's answers about who belongs where and may see what, as in API 4.0."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

from headrace.sim.http import Reply, Request
from headrace.sim.looker.access import access_entry, encoded, group_value, own_value
from headrace.sim.looker.library import Library
from headrace.sim.looker.tokens import error_reply

Fields = dict[str, Any]


class AccessApi:
    """Routes over what `headrace.sim.looker.access` keeps."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._numbers = itertools.count(80_001)

    def answer(self, request: Request, pieces: list[str], fields: Any) -> Reply | None:
        """The reply to a request about access; None if it is about something else.

        Args:
            request: of any method.
            pieces: its path.
            fields: its body, parsed; nothing for a GET.
        """
        method = request.method
        match pieces:
            case ["roles", role, "groups"]:
                return self._of_role(method, role, fields)
            case ["groups", group, "users"]:
                return self._members(method, group, fields)
            case ["users", user, "roles"] if method == "PUT":
                return self._roles_of_user(user, fields)
            case ["groups", group, "groups", *child]:
                return self._of_group(method, group, child, fields)
            case ["user_attributes", attribute, "group_values"]:
                return self._group_values(method, attribute, fields)
            case ["groups", group, "attribute_values", attribute]:
                return self._group_value(method, group, attribute, fields)
            case ["users", user, "attribute_values", *attribute]:
                return self._user_values(request, user, attribute, fields)
            case ["content_metadata", metadata]:
                return self._metadata(method, metadata, fields)
            case ["content_metadata_access", *entry]:
                return self._entries(request, entry, fields)
            case _:
                return None

    # -- groups ---------------------------------------------------------------------------------

    def _of_role(self, method: str, role: str, fields: Any) -> Reply:
        about = f"roles/{role}/groups"
        if self._library.body("role", role) is None:
            return _missing(method, about)
        if method == "PUT":
            wanted = [str(each) for each in fields]
            if any(self._library.body("group", group) is None for group in wanted):
                return _missing(method, about)
            for group in self._library.ids("group"):
                roles = [each for each in self._hierarchy(group)["role_ids"] if each != role]
                more = [role] if group in wanted else []
                self._library.edit("group_hierarchy", group, role_ids=roles + more)
        return self._groups(lambda hierarchy: role in hierarchy["role_ids"])

    def _of_group(self, method: str, group: str, child: list[str], fields: Any) -> Reply:
        about = f"groups/{group}/groups"
        moved = child[0] if child else str((fields or {}).get("group_id"))
        known = self._library.body("group", group) is not None
        if not known or (method != "GET" and self._library.body("group", moved) is None):
            return _missing(method, about)
        if method == "GET":
            return self._groups(lambda hierarchy: group in hierarchy["parent_group_ids"])
        if method == "POST" and moved in (group, *self._above(group)):
            return error_reply(422, "A group cannot be inside of itself", "post", about)
        parents = [p for p in self._hierarchy(moved)["parent_group_ids"] if p != group]
        more = [group] if method == "POST" else []
        self._library.edit("group_hierarchy", moved, parent_group_ids=parents + more)
        return Reply(200, self._library.body("group", moved) or b"") if more else Reply(204)

    def _members(self, method: str, group: str, fields: Any) -> Reply:
        if self._library.body("group", group) is None:
            return _missing(method, "groups/:group_id/users")
        if method == "GET":
            users = (self._kept("user", user) for user in self._library.ids("user"))
            return _json([user for user in users if group in (user.get("group_ids") or [])])
        user = str(fields.get("user_id"))
        if self._library.body("user", user) is None:
            return _missing(method, "groups/:group_id/users")
        groups = self._kept("user", user).get("group_ids") or []
        if group not in groups:
            self._library.edit("user", user, group_ids=[*groups, group])
        return _json({"id": user})

    def _roles_of_user(self, user: str, roles: Any) -> Reply:
        here = [self._library.body("role", str(role)) for role in roles]
        if self._library.body("user", user) is None or None in here:
            return _missing("put", "users/:user_id/roles")
        self._library.edit("user", user, role_ids=[str(role) for role in roles])
        return _json(roles)

    def _groups(self, wanted: Callable[[Fields], bool]) -> Reply:
        found = [g for g in self._library.ids("group") if wanted(self._hierarchy(g))]
        bodies = (self._library.body("group", group) or b"" for group in found)
        return Reply(200, b"[" + b",".join(bodies) + b"]")

    def _above(self, group: str) -> set[str]:
        above: set[str] = set()
        waiting = [group]
        while waiting:
            for parent in self._hierarchy(waiting.pop())["parent_group_ids"]:
                if parent not in above:
                    above.add(parent)
                    waiting.append(parent)
        return above

    def _hierarchy(self, group: str) -> Fields:
        return self._kept("group_hierarchy", group)

    def _kept(self, kind: str, item_id: str) -> Fields:
        found: Fields = json.loads(self._library.body(kind, item_id) or b"{}")
        return found

    # -- values of attributes -------------------------------------------------------------------

    def _group_values(self, method: str, attribute: str, fields: Any) -> Reply:
        kind = "group_attribute_value"
        if self._library.body(kind, attribute) is None:
            return _missing(method, f"user_attributes/{attribute}/group_values")
        if method == "POST":
            unknown = [v for v in fields if self._library.body("group", str(v["group_id"])) is None]
            if unknown:
                return error_reply(422, "Validation Failed", "post", "group_values")
            values = [
                group_value(attribute, v["group_id"], v.get("rank", at), v.get("value"))
                for at, v in enumerate(fields)
            ]
            self._library.edit(kind, attribute, group_values=values)
        return _json(self._kept(kind, attribute)["group_values"])

    def _group_value(self, method: str, group: str, attribute: str, fields: Any) -> Reply:
        kind, about = "group_attribute_value", f"groups/{group}/attribute_values"
        here = self._library.body(kind, attribute) and self._library.body("group", group)
        if here is None:
            return _missing(method, about)
        values = self._kept(kind, attribute)["group_values"]
        kept = [value for value in values if value["group_id"] != group]
        if method == "DELETE":
            self._library.edit(kind, attribute, group_values=kept)
            return Reply(204)
        rank = next((v["rank"] for v in values if v["group_id"] == group), len(values))
        made = group_value(attribute, group, rank, fields.get("value"))
        self._library.edit(kind, attribute, group_values=[*kept, made])
        return _json(made)

    def _user_values(self, request: Request, user: str, attribute: list[str], fields: Any) -> Reply:
        kind, about = "user_attribute_value", f"users/{user}/attribute_values"
        if self._library.body(kind, user) is None:
            return _missing(request.method, about)
        own = {v["user_attribute_id"]: v for v in self._kept(kind, user)["values"]}
        if request.method == "GET":
            return _json([v for a in self._library.ids("user_attribute") for v in
                          self._found(user, a, own.get(a))])  # fmt: skip
        if not attribute or self._library.body("user_attribute", attribute[0]) is None:
            return _missing(request.method, about)
        own.pop(attribute[0], None)
        if request.method != "DELETE":
            own[attribute[0]] = own_value(user, attribute[0], fields.get("value"))
        self._library.edit(kind, user, values=list(own.values()))
        if request.method == "DELETE":
            return Reply(204)
        return _json(self._kept(kind, user)["values"][-1])

    def _found(self, user: str, attribute: str, own: Fields | None) -> list[Fields]:
        """The value of an attribute for a user: its own, else a group's, else the default."""
        if own is not None:
            return [own]
        definition = json.loads(self._library.body("user_attribute", attribute) or b"{}")
        member = json.loads(self._library.body("user", user) or b"{}").get("group_ids") or []
        values = self._kept("group_attribute_value", attribute)["group_values"]
        of_groups = sorted(
            (v for v in values if v["group_id"] in member), key=lambda value: int(value["rank"])
        )
        if of_groups:
            source, value = "Group", of_groups[0]["value"]
        elif definition.get("default_value") is not None:
            source, value = "Default", definition["default_value"]
        else:
            return []
        named = {name: definition.get(name) for name in ("name", "label", "value_is_hidden")}
        blank = {"value": None} if definition.get("value_is_hidden") else {}
        return [{**own_value(user, attribute, value), **named, "source": source, **blank}]

    # -- folders --------------------------------------------------------------------------------

    def _metadata(self, method: str, metadata: str, fields: Any) -> Reply:
        if self._library.body("folder_access", metadata) is None:
            return _missing(method, "content_metadata/:content_metadata_id")
        found = self._kept("folder_access", metadata)
        if method == "PATCH" and fields["inherits"] != found["content_metadata"]["inherits"]:
            above = found["content_metadata"]["parent_id"]
            if fields["inherits"]:
                if above is None:
                    return error_reply(422, "The root cannot inherit", "patch", "content_metadata")
                self._library.edit("folder_access", metadata, inherits=True, access=[])
            else:
                # What was inherited stands at first as the folder's own.
                copied = self._kept(
                    "folder_access", found["content_metadata"]["inheriting_id"] or ""
                )
                own = [
                    {**entry, "content_metadata_id": metadata, "id": str(next(self._numbers))}
                    for entry in copied.get("access", [])
                ]
                self._library.edit("folder_access", metadata, inherits=False, access=own)
            found = self._kept("folder_access", metadata)
        return _json(found["content_metadata"])

    def _entries(self, request: Request, entry: list[str], fields: Any) -> Reply:
        method = request.method
        if entry:
            return self._entry(method, entry[0], fields)
        named = request.query if method == "GET" else fields
        metadata = str(named.get("content_metadata_id"))
        if self._library.body("folder_access", metadata) is None:
            return _missing(method, "content_metadata_access")
        kept = self._kept("folder_access", metadata)
        if method == "GET":
            return _json(kept["access"])
        group, user = fields.get("group_id"), fields.get("user_id")
        known = [("group", group), ("user", user)]
        if kept["content_metadata"]["inherits"] or not any(
            each is not None and self._library.body(kind, str(each)) for kind, each in known
        ):
            return error_reply(422, "Validation Failed", "post", "content_metadata_access")
        made = access_entry(
            metadata, str(next(self._numbers)), fields.get("permission_type"), group, user
        )
        self._library.edit("folder_access", metadata, access=[*kept["access"], made])
        return _json(made)

    def _entry(self, method: str, entry_id: str, fields: Any) -> Reply:
        for metadata in self._library.ids("folder_access"):
            access = self._kept("folder_access", metadata)["access"]
            for at, entry in enumerate(access):
                if entry["id"] == entry_id:
                    changed = [{**entry, **fields, "id": entry_id}] if method == "PUT" else []
                    access[at : at + 1] = changed
                    self._library.edit("folder_access", metadata, access=access)
                    return _json(changed[0]) if changed else Reply(204)
        return _missing(method, "content_metadata_access/:content_metadata_access_id")


def _missing(method: str, about: str) -> Reply:
    return error_reply(404, "Not found", method.lower(), about)


def _json(value: object) -> Reply:
    return Reply(200, encoded(value))
