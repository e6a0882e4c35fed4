"""Snapshots of a vault over every kind of store."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.vaults import dashboard, new_vault
from support.vaults import store as store_items

from headrace.lake import Store
from headrace.looker.exceptions import SnapshotDamaged
from headrace.looker.snapshots import fetch, find, list_snapshots, prune, take
from headrace.looker.vault import Vault

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_taken_listed_fetched_pruned(store: Store, tmp_path: Path) -> None:
    with new_vault(tmp_path) as vault:
        store_items(vault, *(dashboard(n, os.urandom(300).hex()) for n in range(60)))
        old = take(vault, store, now=lambda: NOW - timedelta(days=9), part_bytes=30_000)
        store_items(vault, dashboard("later"))
        new = take(vault, store, now=lambda: NOW, part_bytes=30_000)
    assert len(new.parts) > 2
    assert list_snapshots(store) == [new, old]
    assert find(store) == new
    for snapshot, count in ((old, 60), (new, 61)):
        target = fetch(store, snapshot, tmp_path / f"{count}.sqlite")
        with Vault.open(target) as back:
            assert back.contents.counts() == {"dashboard": (count, 0)}
    store.put(new.parts[1].key, store.get(new.parts[0].key))
    with pytest.raises(SnapshotDamaged, match="another checksum"):
        fetch(store, new, tmp_path / "damaged.sqlite")
    done = prune(store, keep_days=5, now=lambda: NOW)
    assert (done.removed, done.kept) == ((old.name,), (new.name,))
    assert list_snapshots(store) == [new]
    assert not any(store.exists(part.key) for part in old.parts)
