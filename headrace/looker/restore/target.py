"""What all that synchronises with a target needs of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from headrace.looker.exceptions import NeedsAnother, NotRestorable
from headrace.looker.restore.api import Api
from headrace.looker.restore.fields import Fields
from headrace.looker.restore.state import Ids
from headrace.looker.restore.writer import Writer
from headrace.looker.vault import Vault

#: What items are about that are there only with it.
_ABOUT = {
    "group_hierarchy": "group",
    "group_attribute_value": "user_attribute",
    "user_attribute_value": "user",
    "folder_access": "folder",
}


class Finder:
    """Finds groups, roles, users, folders and user attributes for what refers to them.

    What was not restored is looked for by its name (a user by email, a folder by its path); that
    costs requests, once a run.
    """

    def __init__(self, vault: Vault, ids: Ids, writer: Writer) -> None:
        self._vault = vault
        self._ids = ids
        self._writer = writer
        self._by_name: dict[tuple[str, str], str | None] = {}

    def find(self, type_: str, item_id: object) -> str | None:
        """Its id there; None if there is nothing of the kind."""
        known = self._ids.known(type_, str(item_id))
        if known is not None:
            return known
        key = (type_, str(item_id))
        if key not in self._by_name:
            self._by_name[key] = None  # a folder below itself ends here
            self._by_name[key] = self._named(*key)
        return self._by_name[key]

    def need(self, type_: str, item_id: object) -> str:
        """Its id there.

        Raises:
            NeedsAnother: there is none.
        """
        found = self.find(type_, item_id)
        if found is None:
            raise NeedsAnother(type_, str(item_id))
        return found

    def called(self, type_: str, item_id: object) -> str:
        """How to name it to people: by what the vault calls it."""
        row = self._vault.contents.row(type_, str(item_id))
        name = f" ({row.name})" if row and row.name and row.name != row.id else ""
        return f"{type_} {item_id}{name}"

    def _named(self, type_: str, item_id: str) -> str | None:
        if self._vault.contents.row(type_, item_id) is None:
            return None
        body: Fields = json.loads(self._vault.contents.body(type_, item_id).body)
        fields = body
        if type_ == "folder":
            try:
                root = self._writer.root(body)
            except (NotRestorable, NeedsAnother):
                return None
            if root is not None:
                return root
            parent = self.find("folder", body.get("parent_id"))
            if parent is None:
                return None
            fields = {"name": body.get("name"), "parent_id": parent}
        return self._writer.named(type_, fields, body)


@dataclass(frozen=True, slots=True)
class Target:
    """A Looker that is restored into.

    Args:
        api: of it.
        finder: which id is which there.
        same: whether it is the Looker that the vault is of.
        leave_out: called with what cannot be carried over, in words.
    """

    api: Api
    finder: Finder
    same: bool
    leave_out: Callable[[str], object]

    def body(self, type_: str, item_id: str) -> Fields:
        """What an item is there.

        Raises:
            NeedsAnother: what it is about is not there.
        """
        body = self.api.item(type_, item_id)
        if body is None:
            raise NeedsAnother(_ABOUT[type_], item_id)
        parsed: Fields = json.loads(body)
        return parsed


@dataclass(frozen=True, slots=True)
class Synced:
    """What an item is there, and whether anything had to be changed."""

    new_id: str
    changed: bool
