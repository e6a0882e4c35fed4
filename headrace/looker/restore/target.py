"""What all that synchronises with a target needs of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from headrace.looker.exceptions import NeedsAnother
from headrace.looker.restore.api import Api
from headrace.looker.restore.fields import Fields
from headrace.looker.restore.finder import Finder

#: What items are about that are there only with it.
_ABOUT = {
    "group_hierarchy": "group",
    "group_attribute_value": "user_attribute",
    "user_attribute_value": "user",
    "folder_access": "folder",
}


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
