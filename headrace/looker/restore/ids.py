"""Which id an item of the vault has at the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.looker.exceptions import NeedsAnother
from headrace.looker.restore.books import Books
from headrace.looker.restore.fields import Fields

#: Fields that hold the id of another item, and its type.
_REFERENCES: Mapping[str, str] = {
    "user_id": "user",
    "folder_id": "folder",
    "parent_id": "folder",
    "home_folder_id": "folder",
    "permission_set_id": "permission_set",
    "model_set_id": "model_set",
    "look_id": "look",
    "dashboard_id": "dashboard",
}
#: Without these the item is still what it was: its owner becomes the caller.
_DISPENSABLE = ("user_id", "home_folder_id")


class Ids:
    """Ids of the vault to ids of the target.

    Args:
        books: what was restored there.
        same: the target is the Looker that the vault is of. What was not restored has its own id
            there then; elsewhere it is not there.
    """

    def __init__(self, books: Books, *, same: bool) -> None:
        self._books = books
        self.same = same

    def known(self, type_: str, item_id: str) -> str | None:
        """The id there, or None."""
        entry = self._books.entry(type_, item_id)
        if entry is not None:
            return entry.new_id
        return item_id if self.same else None

    def new(self, type_: str, item_id: object) -> str:
        """The id there.

        Raises:
            NeedsAnother: it is not there.
        """
        found = self.known(type_, str(item_id))
        if found is None:
            raise NeedsAnother(type_, str(item_id))
        return found

    def translated(self, fields: Fields, leave_out: Callable[[str], object]) -> Fields:
        """`fields` with every reference as it is there.

        Args:
            leave_out: called with what has to be left out, in words.

        Raises:
            NeedsAnother: one that cannot be left out is not there.
        """
        done: Fields = {}
        for name, value in fields.items():
            type_ = _REFERENCES.get(name)
            if type_ is None or value is None:
                done[name] = value
            elif name in _DISPENSABLE:
                found = self.known(type_, str(value))
                if found is None:
                    leave_out(f"{name}: {type_} {value} is not there")
                else:
                    done[name] = found
            else:
                done[name] = self.new(type_, value)
        return done
