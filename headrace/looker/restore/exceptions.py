"""Why one item is not restored; others are."""

from __future__ import annotations

from headrace.looker.exceptions import LookerError


class NotRestorable(LookerError):
    """The API cannot make it again, whatever is asked."""


class NeedsAnother(LookerError):
    """It refers to an item that is not there yet.

    Attributes:
        type, id: what is missing, by its id in the vault.
    """

    def __init__(self, type_: str, item_id: str) -> None:
        super().__init__(
            f"it needs {type_} {item_id}, which is not there",
            hint=f"Restore it first (headrace looker restore {type_} {item_id}), or everything",
        )
        self.type = type_
        self.id = item_id


class TakenByAnother(LookerError):
    """Another item stands where this one would be made."""

    def __init__(self, type_: str, name: str, new_id: str) -> None:
        super().__init__(
            f"there is another {type_} called {name!r} at that place (id {new_id})",
            hint="--overwrite puts this one in its place",
        )
        self.type = type_
        self.new_id = new_id
