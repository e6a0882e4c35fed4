"""Which snapshots stay: by age and by count, and never without the newest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headrace.errors import ConfigurationError
from headrace.lake.store import Store
from headrace.looker.snapshots.catalog import NAME, PARTS, manifest_key, names

#: Parts without a manifest that are younger may belong to a snapshot that is being taken.
_ABANDONED_AFTER = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was removed: snapshots by name, and parts that a killed one left behind."""

    removed: tuple[str, ...]
    kept: tuple[str, ...]
    leftovers: int


def outdated(
    found: Sequence[str], *, keep_days: float | None, keep: int | None, now: datetime
) -> list[str]:
    """Names of the snapshots that a retention lets go, oldest first.

    Args:
        found: names of snapshots.
        keep_days: younger ones stay; None: age keeps nothing.
        keep: so many of the newest stay, whatever their age; None: the newest one.
        now: the present.

    Raises:
        ConfigurationError: neither was given, or a number that is out of range.
    """
    if keep_days is None and keep is None:
        raise ConfigurationError(
            "nothing says which snapshots to keep", hint="Give --keep-days, --keep, or both"
        )
    if (keep is not None and keep < 1) or (keep_days is not None and keep_days < 0):
        raise ConfigurationError(
            f"a retention of {keep_days} days and {keep} snapshots makes no sense",
            hint="Keep at least one",
        )
    newest_first = sorted(found, reverse=True)
    beyond = newest_first[keep or 1 :]
    if keep_days is not None:
        oldest = now - timedelta(days=keep_days)
        beyond = [name for name in beyond if taken_at(name) < oldest]
    return beyond[::-1]


def prune(
    store: Store,
    *,
    keep_days: float | None = None,
    keep: int | None = None,
    dry_run: bool = False,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Pruned:
    """Remove the snapshots that `outdated` names, and what killed ones left.

    Raises:
        ConfigurationError: see `outdated`.
        StoreError: the store failed; what was removed before stays removed.
    """
    found = names(store)
    going = outdated(found, keep_days=keep_days, keep=keep, now=now())
    leftovers = _abandoned(store, set(found), now() - _ABANDONED_AFTER)
    if not dry_run:
        for name in going:
            delete(store, name)
        for key in leftovers:
            store.delete(key)
    kept = tuple(name for name in found if name not in set(going))
    return Pruned(tuple(going), kept, len(leftovers))


def delete(store: Store, name: str) -> None:
    """Remove one snapshot: its manifest first, so that no list shows half of one."""
    store.delete(manifest_key(name))
    for entry in list(store.entries(PARTS)):
        if _owner(entry.key) == name:
            store.delete(entry.key)


def taken_at(name: str) -> datetime:
    """When a snapshot was taken, by its name."""
    return datetime.strptime(name[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)


def _abandoned(store: Store, known: set[str], before: datetime) -> list[str]:
    return [
        entry.key
        for entry in store.entries(PARTS)
        if (owner := _owner(entry.key)) and owner not in known and taken_at(owner) < before
    ]


def _owner(key: str) -> str:
    name = key.removeprefix(PARTS).partition(".")[0]
    return name if NAME.fullmatch(name) else ""
