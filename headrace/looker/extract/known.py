"""What the vault holds of a type already, so that a light listing tells what has changed."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.looker.extract.elements import Named
from headrace.looker.vault import Vault
from headrace.looker.vault.items import id_text, server_time, shown


@dataclass(slots=True)
class Known:
    """The times and names of a type's items, by id."""

    rows: dict[str, tuple[str | None, str | None, str | None]] = field(default_factory=dict)

    @classmethod
    def of(cls, vault: Vault, type_: str) -> Known:
        """Those of the vault that are not deleted."""
        return cls(
            {row.id: (row.updated_at, row.name, row.folder) for row in vault.contents.rows(type_)}
        )

    def unchanged(self, item_id: str, named: Named) -> bool:
        """Whether an element of a listing says that the body is the one that is stored.

        Without a time of change nothing can be said, and it is not.
        """
        row = self.rows.get(item_id)
        if row is None or not isinstance(named.updated_at, str) or named.deleted_at:
            return False
        updated_at, name, folder = row
        title, folder_id = named.title, id_text(named.folder_id)
        return (
            server_time(named.updated_at) == updated_at
            and (not isinstance(title, str) or shown(title) == name)
            and (folder_id is None or folder_id == folder)
        )
