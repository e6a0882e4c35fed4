"""Memberships, attribute values and access: read at the target, compared, set where they differ.

Such an item is never made: it is there with the group, the user, the attribute or the folder that
it is about. Setting it again is harmless, so that a killed run simply begins the item again.

Into the Looker that the vault is of, it becomes what the vault holds. Into another one, memberships
of groups, roles and values are only added to and changed, since others may have been there before;
access to a folder becomes what the vault holds there as well: an extra entry would show content to
users for whom it was not meant.

A value that is hidden is in no vault: Looker does not show it. Where the target has one of its own
it stays; where it has none, that is named.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from headrace.looker.content_types import escaped
from headrace.looker.elements import objects
from headrace.looker.exceptions import NotRestorable
from headrace.looker.restore.fields import Fields
from headrace.looker.restore.target import Synced, Target
from headrace.looker.vault import id_text
from headrace.looker.vault.secrets import without_secrets

#: System attributes whose values are the user's own fields.
_OF_USERS = frozenset({"email", "first_name", "last_name", "name", "id"})


def _values_of_groups(target: Target, item_id: str, body: Fields) -> Synced:
    """The values of one attribute for groups, and which of them goes first.

    The API replaces all of them at once. That is done where nothing is hidden; else the values
    would be lost, and hidden ones cannot be set anyway.
    """
    attribute = target.finder.need("user_attribute", item_id)
    there = _by_rank(target.body("group_attribute_value", attribute))
    present = {str(value.get("group_id")): value for value in there}
    wanted: list[tuple[str, Any]] = []
    hidden = False
    for value in _by_rank(body):
        group = target.finder.find("group", value.get("group_id"))
        named = target.finder.called("group", value.get("group_id"))
        if group is None:
            target.leave_out(f"the value for {named}, which is not there")
        elif value.get("value_is_hidden"):
            hidden = True
            if group not in present:
                target.leave_out(f"the value for {named}, which is hidden and in no vault")
        else:
            wanted.append((group, value.get("value")))
    if hidden:
        return Synced(attribute, changed=False)
    now = [(str(value.get("group_id")), value.get("value")) for value in there]
    if not target.same:
        ours = {group for group, _value in wanted}
        wanted += [(group, value) for group, value in now if group not in ours]
    if wanted == now:
        return Synced(attribute, changed=False)
    sent = [
        {"group_id": group, "user_attribute_id": attribute, "rank": rank, "value": value}
        for rank, (group, value) in enumerate(wanted, 1)
    ]
    target.api.put("POST", f"/user_attributes/{escaped(attribute)}/group_values", sent)
    return Synced(attribute, changed=True)


def _by_rank(body: Fields) -> list[Fields]:
    values = objects(body.get("group_values"))
    return sorted(values, key=lambda value: (value.get("rank") is None, value.get("rank") or 0))


def _values_of_user(target: Target, item_id: str, body: Fields) -> Synced:
    """The values that a user has of its own."""
    user = target.finder.need("user", item_id)
    there = objects(target.body("user_attribute_value", user).get("values"))
    present = {str(value.get("user_attribute_id")): value for value in there}
    wanted: set[str] = set()
    changed = False
    for value in objects(body.get("values")):
        name = value.get("name")
        if name in _OF_USERS:
            wanted.add(str(value.get("user_attribute_id")))
            continue
        attribute = target.finder.find("user_attribute", value.get("user_attribute_id"))
        if attribute is None:
            target.leave_out(f"the value of user attribute {name!r}, which is not there")
            continue
        wanted.add(attribute)
        if value.get("value_is_hidden"):
            if attribute not in present:
                target.leave_out(f"the value of {name!r}, which is hidden and in no vault")
        elif not _is_own(value):
            target.leave_out(f"the value of {name!r}, whose source {value.get('source')!r} is new")
        elif attribute not in present or present[attribute].get("value") != value.get("value"):
            path = f"/users/{escaped(user)}/attribute_values/{escaped(attribute)}"
            target.api.put("PATCH", path, {"value": value.get("value")})
            changed = True
    surplus = present.keys() - wanted if target.same else ()
    for attribute in sorted(surplus):
        if present[attribute].get("name") not in _OF_USERS:
            target.api.delete(f"/users/{escaped(user)}/attribute_values/{escaped(attribute)}")
            changed = True
    return Synced(user, changed)


def _is_own(value: Fields) -> bool:
    return str(value.get("source")).casefold().startswith("user")


def synchronise(target: Target, type_: str, item_id: str, body: Fields) -> Synced:
    """Have what the vault says of one item at the target.

    Raises:
        NeedsAnother: what the item is about is not there.
        NotRestorable: it has to be made by hand.
        RequestRefused: Looker refuses it.
    """
    return _SYNCHRONISERS[type_](target, item_id, body)


def _groups(target: Target, item_id: str, body: Fields) -> Synced:
    """Which groups a group is in, and which roles it has."""
    group = target.finder.need("group", item_id)
    there = target.body("group_hierarchy", group)
    changed = False
    wanted = _found(target, "group", body.get("parent_group_ids"))
    present = {str(each) for each in there.get("parent_group_ids") or ()}
    for parent in sorted(wanted - present):
        target.api.put("POST", f"/groups/{escaped(parent)}/groups", {"group_id": group})
        changed = True
    roles = _found(target, "role", body.get("role_ids"))
    held = {str(each) for each in there.get("role_ids") or ()}
    for role in sorted(roles - held):
        _set_groups_of_role(target, role, lambda groups: groups | {group})
        changed = True
    if target.same:
        for parent in sorted(present - wanted):
            target.api.delete(f"/groups/{escaped(parent)}/groups/{escaped(group)}")
            changed = True
        for role in sorted(held - roles):
            _set_groups_of_role(target, role, lambda groups: groups - {group})
            changed = True
    return Synced(group, changed)


def _found(target: Target, type_: str, named: object) -> set[str]:
    """Ids there of those that are there; the others are named."""
    found: set[str] = set()
    for each in named if isinstance(named, list) else ():
        there = target.finder.find(type_, each)
        if there is None:
            target.leave_out(f"{target.finder.called(type_, each)}, which is not there")
        else:
            found.add(there)
    return found


def _set_groups_of_role(target: Target, role: str, change: Callable[[set[str]], set[str]]) -> None:
    """The API sets the groups of a role as a whole; other groups keep it."""
    path = f"/roles/{escaped(role)}/groups"
    groups = {str(group["id"]) for group in objects(target.api.get(path))}
    target.api.put("PUT", path, sorted(change(groups)))


def _folder(target: Target, _item_id: str, body: Fields) -> Synced:
    """Whether a folder inherits its access, and its own if it does not."""
    about = body["content_metadata"]
    folder = target.finder.need("folder", about.get("folder_id"))
    metadata = id_text(target.api.get(f"/folders/{escaped(folder)}").get("content_metadata_id"))
    if metadata is None:
        raise NotRestorable(f"folder {folder} has no access of its own there")
    there = target.body("folder_access", metadata)
    inherits = bool(about.get("inherits"))
    changed = bool(there["content_metadata"].get("inherits")) != inherits
    if changed:
        target.api.put("PATCH", f"/content_metadata/{escaped(metadata)}", {"inherits": inherits})
        there = target.body("folder_access", metadata)
    if not inherits:
        changed |= _set_access(target, metadata, there, body)
    return Synced(metadata, changed)


def _set_access(target: Target, metadata: str, there: Fields, body: Fields) -> bool:
    path = "/content_metadata_access"
    wanted: dict[tuple[str, str], object] = {}
    for entry in objects(body.get("access")):
        type_ = "group" if entry.get("group_id") is not None else "user"
        who = target.finder.find(type_, entry.get(f"{type_}_id"))
        if who is None:
            named = target.finder.called(type_, entry.get(f"{type_}_id"))
            target.leave_out(f"{entry.get('permission_type')} for {named}, which is not there")
        else:
            wanted[type_, who] = entry.get("permission_type")
    changed = False
    present: set[tuple[str, str]] = set()
    surplus: list[str] = []
    for entry in objects(there.get("access")):
        type_ = "group" if entry.get("group_id") is not None else "user"
        key = (type_, str(entry.get(f"{type_}_id")))
        present.add(key)
        if key not in wanted:
            surplus.append(str(entry["id"]))
        elif wanted[key] != entry.get("permission_type"):
            sent = {"content_metadata_id": metadata, "permission_type": wanted[key]}
            sent[f"{type_}_id"] = key[1]
            target.api.put("PUT", f"{path}/{escaped(str(entry['id']))}", sent)
            changed = True
    for type_, who in sorted(wanted.keys() - present):
        sent = {"content_metadata_id": metadata, "permission_type": wanted[type_, who]}
        target.api.put("POST", path, {**sent, f"{type_}_id": who})
        changed = True
    for entry_id in surplus:  # last, so that no user loses access on the way
        target.api.delete(f"{path}/{escaped(entry_id)}")
        changed = True
    return changed


def _connection(target: Target, item_id: str, body: Fields) -> Synced:
    """A connection is known by its name, and never written: its secrets are in no vault."""
    there = target.api.item("connection", item_id)
    if there is None:
        raise NotRestorable(
            f"there is no connection called {item_id!r}, and its secrets are in no vault",
            hint="Make it in Looker, under this name, then restore again",
        )
    if target.same:
        now = json.loads(without_secrets("connection", there))
        differ = sorted(n for n in body.keys() | now.keys() if body.get(n) != now.get(n))
        if differ:
            target.leave_out(f"{', '.join(differ)}: not as in the vault, and to be set in Looker")
    return Synced(item_id, changed=False)


_SYNCHRONISERS: Mapping[str, Callable[[Target, str, Fields], Synced]] = {
    "group_hierarchy": _groups,
    "group_attribute_value": _values_of_groups,
    "user_attribute_value": _values_of_user,
    "folder_access": _folder,
    "connection": _connection,
}
#: The types that are synchronised.
SYNCHRONISED = frozenset(_SYNCHRONISERS)
