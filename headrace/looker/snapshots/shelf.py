"""Which snapshots a store holds."""

from __future__ import annotations

from headrace.lake.exceptions import ObjectMissing
from headrace.lake.store import Store
from headrace.looker.snapshots.exceptions import NoSuchSnapshot
from headrace.looker.snapshots.manifest import FOLDER, NAME, SUFFIX, Snapshot, manifest_key, parse

NEWEST = "latest"


def names(store: Store) -> list[str]:
    """Names of the complete snapshots, newest first."""
    keys = (entry.key.removeprefix(FOLDER) for entry in store.entries(FOLDER))
    found = (key.removesuffix(SUFFIX) for key in keys if key.endswith(SUFFIX))
    return sorted((name for name in found if NAME.fullmatch(name)), reverse=True)


def listed(store: Store) -> list[Snapshot]:
    """The complete snapshots, newest first; a request for each.

    Raises:
        SnapshotDamaged: a manifest does not read.
        StoreError: the store failed.
    """
    found = []
    for name in names(store):
        try:
            found.append(_read(store, name))
        except ObjectMissing:
            continue  # deleted since it was listed
    return found


def find(store: Store, name: str = NEWEST) -> Snapshot:
    """One snapshot, the newest if called `latest`.

    Raises:
        NoSuchSnapshot, SnapshotDamaged, StoreError.
    """
    known = names(store)
    wanted = known[0] if name == NEWEST and known else name
    if wanted not in known:
        raise NoSuchSnapshot(store.location, name, ", ".join(known[:10]) or "none at all")
    return _read(store, wanted)


def _read(store: Store, name: str) -> Snapshot:
    key = manifest_key(name)
    return parse(store.place(key), store.get(key))
