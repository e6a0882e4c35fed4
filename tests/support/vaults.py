"""Vaults for tests, and bodies to put into them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from headrace.looker.content_types import CONTENT
from headrace.looker.vault import Item, Vault, item_of


class Clock:
    """A clock that goes a second further at every look."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def new_vault(folder: Path, source: str = "https://one.example") -> Vault:
    vault = Vault.open(folder / "vault" / "looker.sqlite", create=True, now=Clock())
    vault.bind(source)
    return vault


def body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def dashboard(item_id: object, title: str = "a title", **fields: Any) -> Item:
    return item_of("dashboard", body(id=item_id, title=title, **fields))


def store(vault: Vault, *items: Item) -> int:
    """Store items in a session of their own, with complete listings of their types."""
    session = vault.sessions.begin("extract")
    vault.upsert_many(session, items)
    for type_ in {item.type for item in items}:
        complete(vault, session, type_)
    return session


def complete(vault: Vault, session: int, type_: str) -> None:
    for listing in CONTENT[type_].listings:
        vault.listings.record(session, type_, listing.name, complete=True, items=1)
