"""What is wrong with the files of a product: unsound parts, overlaps, leftovers, foreign files."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.audit.aside import is_former_aside, keys_aside
from headrace.audit.findings import Finding, Kind
from headrace.audit.inspection import Inspection
from headrace.audit.overlaps import Shared, shared_by
from headrace.lake import Overlap, Part, RawLake
from headrace.lake.exceptions import ObjectMissing, PartUnreadable


def part_findings(
    raw: RawLake, product: str, inspection: Inspection, *, deep: bool
) -> Iterator[Finding]:
    """One finding per thing that is wrong. With `deep`, overlapping parts are compared by rows.

    Raises:
        StoreError: the store failed.
    """
    heal = f"headrace audit {product} --heal"
    repairs = {
        Kind.UNREADABLE: f"{heal} sets the file aside and fetches its range again",
        Kind.MISNAMED: f"{heal} sets the file aside and fetches the range of its name",
        Kind.NEWER: "upgrade headrace",
    }
    for part, unsound in inspection.unsound():
        repair = repairs[unsound.kind]
        yield Finding(unsound.kind, product, unsound.reason, repair, *_where(part))
    for overlap in inspection.listing.overlaps:
        yield _overlap_finding(raw, product, inspection, overlap, heal, deep=deep)
    for part in inspection.listing.hidden:
        if inspection.footer(part) is not None:
            message = f"{part.name} lies within a longer part; our readers pass it over"
            repair = f"{heal} removes it, if the longer part holds its trades; so does any run"
            yield Finding(Kind.LEFTOVER, product, message, repair, *_where(part))
    for key in inspection.listing.foreign:
        if not is_former_aside(key):
            message = f"{key.rpartition('/')[2]} is no part; it is left alone"
            yield Finding(Kind.FOREIGN, product, message, keys=(key,))
    for key in keys_aside(raw, product):
        message = f"{key} was set aside by an earlier healing; no reader takes it for a part"
        remedy = "look at it, and remove it when you like"
        yield Finding(Kind.SET_ASIDE, product, message, remedy, keys=(key,))


def _overlap_finding(
    raw: RawLake,
    product: str,
    inspection: Inspection,
    overlap: Overlap,
    heal: str,
    *,
    deep: bool,
) -> Finding:
    left, right = overlap.left, overlap.right
    lo, hi = overlap.shared
    footers = (inspection.footer(left), inspection.footer(right))
    kind = Kind.DUPLICATE if all(f is not None and f.rows for f in footers) else Kind.OVERLAP
    message = f"{left.name} and {right.name} both answer for {hi - lo + 1:,} ids"
    if kind is Kind.DUPLICATE:
        message += ", and both hold trades"
    if deep and all(footers):
        shared = _compared(raw, overlap)
        if shared is not None:
            kind = Kind.DUPLICATE if min(shared.left_rows, shared.right_rows) else Kind.OVERLAP
            message += f": {_in_words(shared)}"
    repair = f"{heal} shortens one of them; if they differ, it sets both aside and fetches again"
    return Finding(kind, product, message, repair, (lo, hi), (left.key, right.key))


def _compared(raw: RawLake, overlap: Overlap) -> Shared | None:
    try:
        return shared_by(raw, overlap)
    except (PartUnreadable, ObjectMissing):
        # Damaged or merged away since it was inspected: the next audit sees what it is now.
        return None


def _in_words(shared: Shared) -> str:
    if shared.same:
        return f"the same {shared.left_rows:,} trades"
    return f"{shared.left_rows:,} and {shared.right_rows:,} trades that are not the same"


def _where(part: Part) -> tuple[tuple[int, int], tuple[str, ...]]:
    return (part.lo, part.hi), (part.key,)
