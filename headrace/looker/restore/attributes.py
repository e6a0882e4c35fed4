"""Values of user attributes, for groups and for users.

A value that is hidden is in no vault: Looker does not show it. Where the target has one of its own
it stays; where it has none, that is named.
"""

from __future__ import annotations

from typing import Any

from headrace.looker.content_types import escaped
from headrace.looker.elements import objects
from headrace.looker.restore.fields import Fields
from headrace.looker.restore.target import Synced, Target

#: System attributes whose values are the user's own fields.
_OF_USERS = frozenset({"email", "first_name", "last_name", "name", "id"})


def of_groups(target: Target, item_id: str, body: Fields) -> Synced:
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


def of_user(target: Target, item_id: str, body: Fields) -> Synced:
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
