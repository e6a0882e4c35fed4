"""A product's parts held against its last manifest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

import pyarrow as pa

from headrace.amounts import counted
from headrace.audit.findings import Finding, Kind
from headrace.audit.inspection import Inspection, PartsKeepChanging, inspect
from headrace.lake import Part, PartFooter, RawLake
from headrace.lake.exceptions import ObjectMissing
from headrace.manifests.comparison import Read, find_changes, summarized
from headrace.manifests.statement import WRONG, Change, ChangeKind, Entry, Manifest
from headrace.stopping import STOP, StopEvent

#: How often the parts are looked at again because some went away.
LOOKS = 5

_WORDS = {
    ChangeKind.NEW: "{ranges} new with {rows:,} trades",
    ChangeKind.MERGED: "{ranges} merged: same rows",
    ChangeKind.HEALED: "{ranges} healed",
}


def inspect_against(
    raw: RawLake,
    product: str,
    entries: Sequence[Entry],
    *,
    deep: bool = False,
    verify: bool | None = None,
    stop: StopEvent = STOP,
) -> tuple[Inspection, list[Change]]:
    """What is there, and how it differs from a manifest's entries; all of one moment.

    Args:
        deep: read all rows for the comparison.
        verify: read all rows and hold them against their footers; as `deep` unless given.

    Raises:
        PartsKeepChanging: parts went away faster than they could be looked at.
        PartUnreadable: rows that had to be compared cannot be read.
        StoreError, Stopped: as they are.
    """
    for _ in range(LOOKS):
        inspection = inspect(raw, product, deep=deep if verify is None else verify, stop=stop)
        try:
            return inspection, find_changes(
                entries, sound_parts(inspection), _reader(raw), deep=deep
            )
        except ObjectMissing:
            continue  # merged away meanwhile
    raise PartsKeepChanging(product)


def sound_parts(inspection: Inspection) -> list[tuple[Part, PartFooter]]:
    """The parts that count and can be read, with their footers."""
    return [
        (part, footer) for part in inspection.listing.parts if (footer := inspection.footer(part))
    ]


def change_findings(
    product: str, manifest: Manifest, changes: Sequence[Change]
) -> Iterator[Finding]:
    """What was lost or changed, each; what is as runs make it, in one line."""
    since = f"since manifest {manifest.sequence} of {manifest.made_at:%Y-%m-%d %H:%M} UTC"
    for change in summarized(changes):
        if change.kind in WRONG:
            kind = Kind.LOST if change.kind is ChangeKind.LOST else Kind.CHANGED
            repair = (
                f"headrace audit {product} --heal fetches them, or a copy of the lake has them"
                if kind is Kind.LOST
                else "compare with a copy of the lake; if the exchange corrected them, "
                f"headrace audit {product} --sign --accept REASON"
            )
            message = f"{since}: {change.detail or f'{change.rows:,} trades in several parts'}"
            yield Finding(kind, product, message, repair, (change.lo, change.hi))
    ranges = Counter(change.kind for change in changes)
    said = [
        words.format(
            ranges=counted(ranges[kind], "range"),
            rows=sum(change.rows for change in changes if change.kind is kind),
        )
        for kind, words in _WORDS.items()
        if ranges[kind]
    ]
    if said:
        yield Finding(Kind.SINCE_MANIFEST, product, f"{since}: {', '.join(said)}")


def _reader(raw: RawLake) -> Read:
    """Reads parts. The last one stays in memory: a merged one is asked for piece by piece."""

    @lru_cache(maxsize=1)
    def read(part: Part) -> pa.Table:
        return raw.read_part(part)[0]

    return read
