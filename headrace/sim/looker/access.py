"""Who belongs where and may see what in a simulated Looker.

Each is kept with the item that it is about, its base: it is there as long as that is, and what it
refers to and is gone is left out. `Library` serves them as kinds of their own: their bodies are
what a perfect copy holds.

======================  ==================  =====================================================
kind                    base, id            what is kept, as `Library.edit` takes it
======================  ==================  =====================================================
group_hierarchy         group               `parent_group_ids`, `role_ids`
group_attribute_value   user_attribute      `group_values`: [{group_id, value, ...}], by rank
user_attribute_value    user                `values`: [{user_attribute_id, value, ...}], its own
folder_access           folder, "9" + id    `inherits`, `access`: [{permission_type, group_id, ...}]
======================  ==================  =====================================================
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

Fields = dict[str, Any]

#: Kinds by the kind of the item that each is about.
BASES: Mapping[str, str] = {
    "group_hierarchy": "group",
    "group_attribute_value": "user_attribute",
    "user_attribute_value": "user",
    "folder_access": "folder",
}


def metadata_id(folder_id: str) -> str:
    """Id of a folder's content metadata."""
    return f"9{folder_id}"


class Access:
    """The kinds of `BASES`. Guarded by the lock of the library that it belongs to.

    Args:
        body_of: the body of an item of another kind; None if there is none.
    """

    def __init__(self, body_of: Callable[[str, str], bytes | None]) -> None:
        self._body_of = body_of
        self._kept: dict[tuple[str, str], Fields] = {}

    def ids(self, kind: str, bases: list[str]) -> list[str]:
        """Ids of a kind whose bases these are."""
        if kind != "folder_access":
            return bases
        return [metadata_id(b) for b in bases if self._base(kind, metadata_id(b)) is not None]

    def begin_empty(self, base: str, base_id: str) -> None:
        """An item was made just now: nothing belongs to it, and a folder inherits."""
        for kind, of in BASES.items():
            if of == base:
                item_id = metadata_id(base_id) if kind == "folder_access" else base_id
                self._kept[kind, item_id] = _empty(kind)

    def body(self, kind: str, item_id: str) -> bytes | None:
        """What a perfect copy holds; None if there is no such item."""
        base = self._base(kind, item_id)
        if base is None:
            return None
        kept = self.kept(kind, item_id)
        match kind:
            case "group_hierarchy":
                return encoded({**base, **kept})
            case "group_attribute_value":
                named = {name: base.get(name) for name in ("id", "name", "label")}
                return encoded({"id": item_id, "user_attribute": named, **kept})
            case "user_attribute_value":
                return encoded({"id": item_id, **kept})
            case _:
                metadata = self.metadata(item_id, base, inherits=kept["inherits"])
                return encoded(
                    {"id": item_id, "content_metadata": metadata, "access": kept["access"]}
                )

    def kept(self, kind: str, item_id: str) -> Fields:
        """What is kept, without what refers to items that are gone."""
        found = self._kept.get((kind, item_id))
        kept = found if found is not None else _generated(kind, item_id)
        return {
            name: [self._shown(each) for each in value if self._is_here(name, each)]
            if isinstance(value, list)
            else value
            for name, value in kept.items()
        }

    def _shown(self, each: Any) -> Any:
        """Values of hidden attributes are blank, to administrators as well."""
        if isinstance(each, dict) and "user_attribute_id" in each:
            attribute = json.loads(
                self._body_of("user_attribute", str(each["user_attribute_id"])) or b"{}"
            )
            hidden = bool(attribute.get("value_is_hidden"))
            blank = {"value": None} if hidden else {}
            named = {name: attribute.get(name) for name in ("name", "label") if name in each}
            return {**each, **named, "value_is_hidden": hidden, **blank}
        return each

    def edit(self, kind: str, item_id: str, fields: Mapping[str, Any]) -> bytes:
        """Change what is kept of an item that is there; its body."""
        self._kept[kind, item_id] = {**self.kept(kind, item_id), **fields}
        return self.body(kind, item_id) or b""

    def metadata(self, item_id: str, folder: Mapping[str, Any], *, inherits: bool) -> Fields:
        """A folder's content metadata."""
        parent = folder.get("parent_id")
        return {
            "id": item_id,
            "name": folder.get("name"),
            "parent_id": None if parent is None else metadata_id(str(parent)),
            "dashboard_id": None,
            "look_id": None,
            "folder_id": folder.get("id"),
            "content_type": "folder",
            "inherits": inherits,
            "inheriting_id": self.inherited_from(item_id) if inherits else None,
        }

    def inherited_from(self, item_id: str) -> str | None:
        """The metadata of the nearest folder above that does not inherit; None at the root."""
        folder = self._base("folder_access", item_id)
        seen = {item_id}
        while folder is not None and folder.get("parent_id") is not None:
            above = metadata_id(str(folder["parent_id"]))
            if above in seen:  # a ring of folders
                return None
            seen.add(above)
            if not self.kept("folder_access", above)["inherits"]:
                return above
            folder = self._base("folder_access", above)
        return None

    def _base(self, kind: str, item_id: str) -> Fields | None:
        base_id = item_id[1:] if kind == "folder_access" else item_id
        body = self._body_of(BASES[kind], base_id)
        if body is None:
            return None
        try:
            base = json.loads(body)
        except ValueError:
            base = {}
        if kind == "folder_access" and base.get("content_metadata_id") != item_id:
            return None
        return base if isinstance(base, dict) else {}

    def _is_here(self, name: str, each: Any) -> bool:
        if isinstance(each, dict):
            pairs = [(_KINDS.get(field), value) for field, value in each.items()]
        else:
            pairs = [("role" if name == "role_ids" else "group", each)]
        return all(
            self._body_of(kind, str(value)) is not None
            for kind, value in pairs
            if kind is not None and value is not None
        )


_KINDS = {"group_id": "group", "user_id": "user", "user_attribute_id": "user_attribute"}


def _empty(kind: str) -> Fields:
    match kind:
        case "group_hierarchy":
            return {"parent_group_ids": [], "role_ids": []}
        case "group_attribute_value":
            return {"group_values": []}
        case "user_attribute_value":
            return {"values": []}
        case _:
            return {"inherits": True, "access": []}


def _generated(kind: str, item_id: str) -> Fields:
    """What belongs to a generated item: something that differs from nothing for each kind."""
    number = int(item_id) if item_id.isdecimal() else 0
    match kind:
        case "group_hierarchy":
            parents = [str(number // 2)] if number > 1 else []
            return {"parent_group_ids": parents, "role_ids": ["1"]}
        case "group_attribute_value":
            return {"group_values": [group_value(item_id, group, 3 - group) for group in (2, 1)]}
        case "user_attribute_value":
            attribute = str(1 + number % 3)
            return {"values": [own_value(item_id, attribute, f"value of {item_id}")]}
        case _:
            access = [access_entry(item_id, f"{item_id}1", "view", "1", None)]
            inherits = item_id != metadata_id("1") and number % 4 != 3
            return {"inherits": inherits, "access": [] if inherits else access}


def group_value(attribute: str, group: object, rank: int, value: object = None) -> Fields:
    """The value of an attribute for a group, as API 4.0 has it."""
    return {
        "id": f"{attribute}0{group}",
        "group_id": str(group),
        "user_attribute_id": attribute,
        "value_is_hidden": False,
        "rank": rank,
        "value": f"value of group {group}" if value is None else value,
    }


def own_value(user: str, attribute: str, value: object) -> Fields:
    """The value of an attribute for a user, as API 4.0 has it."""
    return {
        "name": None,
        "label": None,
        "rank": 0,
        "value": value,
        "user_id": user,
        "user_can_edit": False,
        "value_is_hidden": False,
        "user_attribute_id": attribute,
        "source": "User",
    }


def access_entry(
    metadata: str, entry_id: str, permission: object, group: object, user: object
) -> Fields:
    """Leave to see or change a folder, as API 4.0 has it."""
    return {
        "id": entry_id,
        "content_metadata_id": metadata,
        "permission_type": permission,
        "group_id": None if group is None else str(group),
        "user_id": None if user is None else str(user),
    }


def encoded(value: object) -> bytes:
    """JSON without blanks."""
    return json.dumps(value, separators=(",", ":")).encode()
