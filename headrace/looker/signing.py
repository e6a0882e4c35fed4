"""Signed statements of which snapshots lie in a place, each chained to the one before.

    looker-snapshots/manifests/000000001.json

Each names every snapshot by the SHA-256 of its own manifest, which holds the checksums of its
parts. So a snapshot that was exchanged, or removed without a word, shows. docs/manifests.md is the
format.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from headrace.lake.exceptions import ObjectMissing
from headrace.lake.store import Store
from headrace.looker.exceptions import SnapshotDamaged
from headrace.looker.snapshots import FOLDER, Snapshot, fetch_part, list_names, manifest_key, parse
from headrace.manifests.chain import Open, Seal, SignedChain
from headrace.manifests.exceptions import ManifestDamaged, NotSigned
from headrace.manifests.statement import as_payload
from headrace.stopping import STOP, StopEvent

PREFIX = f"{FOLDER}manifests/"
TYPE = "headrace.looker-snapshots.v1"


class StatedSnapshot(msgspec.Struct, frozen=True):
    """One snapshot, as its own manifest says, and the SHA-256 of that file."""

    name: str
    taken_at: str
    source: str
    session: int
    counts: dict[str, int]
    size_bytes: int
    sha256: str
    parts: int
    manifest_sha256: str


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """What is stated of a place.

    Args:
        sequence, previous, made_at: as in a manifest of a lake.
        snapshots: every one, by rising names.
        removed: names that the statement before has, and this one has not.
        accepted: why some of those that are gone were not removed by a retention, or are others
            now; empty where there are none.
    """

    type: str = TYPE
    sequence: int
    previous: str | None
    made_at: datetime
    snapshots: tuple[StatedSnapshot, ...]
    removed: tuple[str, ...] = ()
    accepted: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """A snapshot that is not as the last statement says: its name, and what is wrong with it."""

    name: str
    problem: str


@dataclass(frozen=True, slots=True)
class SnapshotSigning:
    """The statements of one place.

    Args:
        store: of the snapshots.
        open: reads a signed file; see `headrace.manifests.chain`.
    """

    store: Store
    open: Open

    @property
    def chain(self) -> SignedChain:
        """The statements by number."""
        return SignedChain(self.store, PREFIX, TYPE, self.open)

    def last(self) -> Inventory | None:
        """The last statement.

        Raises:
            ManifestDamaged, ManifestTooNew: it cannot be used.
            StoreError: the store failed.
        """
        link = self.chain.last()
        return self.chain.stated(link, Inventory) if link else None

    def sign(
        self, seal: Seal, now: datetime, *, removed: Collection[str] = (), accept: str = ""
    ) -> Inventory:
        """State what lies there now.

        Args:
            seal: signs it.
            now: when.
            removed: names that the caller has removed on purpose.
            accept: why others are gone or changed; empty: nothing is signed then.

        Raises:
            NotSigned: a snapshot of the statement before is gone or changed.
            SnapshotDamaged: a manifest of a snapshot does not read.
            ManifestDamaged, ManifestTooNew, StoreError: as `last`.
        """

        def make(sequence: int, previous: str | None) -> dict[str, Any]:
            before = self._before(accept)
            found = self._found()
            wrong = [
                each
                for each in self._differences(before, found)
                if each.name not in removed or each.name in found
            ]
            if wrong and not accept:
                raise NotSigned(
                    self.store.location,
                    f"{wrong[0].name} {wrong[0].problem}",
                    hint="Bring it back from a copy; or --accept REASON, which the statement keeps",
                )
            gone = (
                () if before is None else (s.name for s in before.snapshots if s.name not in found)
            )
            return as_payload(
                Inventory(
                    sequence=sequence,
                    previous=previous,
                    made_at=now.replace(microsecond=0),
                    snapshots=tuple(found[name] for name in sorted(found)),
                    removed=tuple(gone),
                    accepted=accept if wrong else "",
                )
            )

        return self.chain.stated(self.chain.append(make, seal), Inventory)

    def differences(self, *, stop: StopEvent = STOP) -> Iterator[Difference]:
        """What is not as the last statement says; every part is read.

        Args:
            stop: looked at before each part.

        Raises:
            ManifestDamaged, ManifestTooNew, StoreError: as `last`.
            Stopped: the stop was set.
        """
        last = self.last()
        found = self._found()
        yield from self._differences(last, found)
        for name in sorted(found):
            try:
                for part in _read(self.store, name)[0].parts:
                    stop.check()
                    fetch_part(self.store, part)
            except SnapshotDamaged as error:
                yield Difference(name, error.reason)

    def _before(self, accept: str) -> Inventory | None:
        """The last statement; with a reason to go on, none where it cannot be used."""
        try:
            return self.last()
        except ManifestDamaged:
            if not accept:
                raise
            return None

    def _differences(
        self, stated: Inventory | None, found: dict[str, StatedSnapshot]
    ) -> Iterator[Difference]:
        for each in stated.snapshots if stated else ():
            if each.name not in found:
                yield Difference(each.name, "is gone, although the last statement has it")
            elif found[each.name] != each:
                yield Difference(each.name, "is another than that of the last statement")

    def _found(self) -> dict[str, StatedSnapshot]:
        found = {}
        for name in list_names(self.store):
            try:
                snapshot, digest = _read(self.store, name)
            except ObjectMissing:
                continue  # deleted since it was listed
            found[name] = _stated(snapshot, digest)
        return found


def _read(store: Store, name: str) -> tuple[Snapshot, str]:
    key = manifest_key(name)
    content = store.get(key)
    return parse(store.place(key), content), hashlib.sha256(content).hexdigest()


def _stated(snapshot: Snapshot, digest: str) -> StatedSnapshot:
    fields = {name: getattr(snapshot, name) for name in StatedSnapshot.__struct_fields__[:7]}
    return StatedSnapshot(**fields, parts=len(snapshot.parts), manifest_sha256=digest)
