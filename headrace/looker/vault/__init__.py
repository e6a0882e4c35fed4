"""The vault of Looker's content: one SQLite file with every body as sent, and its history.

Start reading at `vault`, which is what callers see.
"""

from headrace.looker.exceptions import (
    ListingIncomplete,
    NoSuchSession,
    NotInVault,
    VaultBusy,
    VaultDamaged,
    VaultForeign,
    VaultMissing,
    VaultOfAnother,
    VaultTooNew,
    VaultUnusable,
)
from headrace.looker.vault.items import Item, id_text, item_of
from headrace.looker.vault.model import (
    ITEM,
    PAGE,
    Body,
    Failed,
    Failure,
    ListingOutcome,
    Page,
    Row,
    Session,
    Status,
    UpsertCounts,
    page_key,
    page_of_key,
)
from headrace.looker.vault.vault import Vault

__all__ = [
    "ITEM",
    "PAGE",
    "Body",
    "Failed",
    "Failure",
    "Item",
    "ListingIncomplete",
    "ListingOutcome",
    "NoSuchSession",
    "NotInVault",
    "Page",
    "Row",
    "Session",
    "Status",
    "UpsertCounts",
    "Vault",
    "VaultBusy",
    "VaultDamaged",
    "VaultForeign",
    "VaultMissing",
    "VaultOfAnother",
    "VaultTooNew",
    "VaultUnusable",
    "id_text",
    "item_of",
    "page_key",
    "page_of_key",
]
