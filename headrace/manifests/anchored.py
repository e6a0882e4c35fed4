"""Heads of a lake in places that its writer cannot change, and the lake held against them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.errors import HeadraceError
from headrace.evidence.exceptions import BadStatement
from headrace.manifests.chain import Link
from headrace.manifests.exceptions import ManifestDamaged, ManifestMissing, ManifestTooNew
from headrace.manifests.lakes import LakeManifests
from headrace.manifests.statement import HEAD_TYPE


class Place(Protocol):
    """What is needed of an anchor; see `headrace.sot.anchors.places`."""

    @property
    def where(self) -> str:
        """As a person would write it."""

    def append(self, line: bytes, name: str) -> str:
        """Keep one line more."""

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """All of them, each with its place."""


@dataclass(frozen=True, slots=True)
class AnchorReport:
    """What holding a lake against one place has shown.

    Args:
        where: the place.
        heads: how many fit, from the first on.
        misfit: the first that does not, and why.
        unavailable: why the place could not be read, or did not take a head.
    """

    where: str
    heads: int = 0
    misfit: str = ""
    unavailable: str = ""

    @property
    def problem(self) -> str:
        """Either of the two."""
        return self.misfit or self.unavailable


def keep_head(manifests: LakeManifests, head: Link, places: Iterable[Place]) -> list[AnchorReport]:
    """Put a head, as its file in the lake is, into every place; why one does not have it."""
    line = manifests.store.get(head.key)
    name = f"{head.payload['lake'][:8]}-{head.sequence:09d}"
    reports = []
    for place in places:
        try:
            place.append(line, name)
            reports.append(AnchorReport(place.where, 1))
        except HeadraceError as error:
            reports.append(AnchorReport(place.where, unavailable=str(error)))
    return reports


def hold_against(manifests: LakeManifests, place: Place) -> AnchorReport:
    """Compare a lake with every head that a place keeps, up to the first that does not fit."""
    heads = 0
    try:
        for where, line in place.lines():
            if problem := _misfit(manifests, line, where):
                return AnchorReport(place.where, heads, f"{where}: {problem}")
            heads += 1
    except HeadraceError as error:
        return AnchorReport(place.where, heads, unavailable=str(error))
    return AnchorReport(place.where, heads)


def _misfit(manifests: LakeManifests, line: bytes, where: str) -> str:
    """Why the lake does not have this head; empty if it does."""
    try:
        kept = manifests.open(line, where)
        sequence = kept.get("sequence")
        if kept["type"] != HEAD_TYPE or not isinstance(sequence, int):
            return f"it is no {HEAD_TYPE}"
        there = manifests.heads.read(sequence)
    except BadStatement as error:
        return error.reason
    except ManifestMissing:
        gone = f"head {sequence} of the lake is not there any more"
        return _another_lake(manifests, kept) or gone
    except (ManifestDamaged, ManifestTooNew) as error:
        return error.message
    if there.payload != kept:
        other = f"head {sequence} of the lake is another than the one that was kept"
        return _another_lake(manifests, kept) or other
    return ""


def _another_lake(manifests: LakeManifests, kept: dict[str, Any]) -> str:
    """That a head is of another lake; empty if it is of this one."""
    own = manifests.known_id()
    if kept.get("lake") == own:
        return ""
    this = f"this one is {own}" if own else "this one has no id, as before its first manifest"
    return f"the head is of lake {kept.get('lake')}, {this}: name another place for this lake"
