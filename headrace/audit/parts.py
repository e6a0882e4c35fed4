"""The files of a product: unsound parts, overlaps, leftovers, foreign files; and setting one aside.

`set_aside` moves a file where no reader takes it for a part, and does not lose it:

    raw/trades/exchange=coinbase/product=BTC-USD/part-000000000001-000000001000.parquet

becomes, in the same lake,

    _headrace/aside/exchange=coinbase/product=BTC-USD/part-...-000000001000.parquet-1f3a9c2e5b7d9e01

The end of the name is a digest of the content: setting the same file aside twice, say because a
kill came between, makes one copy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.amounts import counted
from headrace.audit.findings import Finding, Kind
from headrace.audit.inspection import Inspection
from headrace.kill_points import kill_point
from headrace.lake import Overlap, Part, RawLake, content_digest
from headrace.lake.exceptions import InvalidTrades, ObjectMissing, PartUnreadable
from headrace.lake.names import FORMER_SET_ASIDE, set_aside_prefix
from headrace.pull.product_leases import HeldLease
from headrace.trades import rows_between

_DIGEST_CHARACTERS = 16


def find_set_aside(raw: RawLake, product: str) -> list[str]:
    """What earlier healings of the product set aside, also among the parts, as it was before.

    Raises:
        StoreError: the store failed.
    """
    now = [entry.key for entry in raw.store.entries(set_aside_prefix(raw.exchange, product))]
    return sorted([*now, *filter(was_set_aside_before, raw.parts(product).foreign)])


def was_set_aside_before(key: str) -> bool:
    """Whether an earlier version set the file aside among the parts; any run moves it away."""
    return key.rpartition("/")[2].startswith(FORMER_SET_ASIDE)


def set_aside(raw: RawLake, product: str, part: Part, lease: HeldLease) -> str:
    """Move the file of `part` away from the parts; its new key. Durable when it returns.

    The copy is there before the part goes, and the lease is asked in between.

    Raises:
        ObjectMissing: it is gone already.
        LeaseLost: another holder has taken over; the part was left where it is.
        StoreError: the store failed.
    """
    content = raw.store.get(part.key)
    digest = hashlib.sha256(content).hexdigest()[:_DIGEST_CHARACTERS]
    key = f"{set_aside_prefix(raw.exchange, product)}{part.name}-{digest}"
    raw.store.put_if_absent(key, content)
    kill_point("after-aside")
    lease.check()
    raw.store.delete(part.key)
    return key


@dataclass(frozen=True, slots=True)
class Shared:
    """What two parts hold of the ids that both answer for.

    Args:
        left_rows, right_rows: trades of the shared ids in the one and the other.
        same: whether they are the same trades, value by value.
    """

    left_rows: int
    right_rows: int
    same: bool


def compare_overlap(raw: RawLake, overlap: Overlap) -> Shared:
    """Compare two overlapping parts; both are read.

    Raises:
        PartUnreadable, ObjectMissing: one of them cannot be read, or is gone.
        StoreError: the store failed.
    """
    lo, hi = overlap.shared
    left = rows_between(raw.read_part(overlap.left)[0], lo, hi)
    right = rows_between(raw.read_part(overlap.right)[0], lo, hi)
    try:
        same = content_digest(left) == content_digest(right)
    except InvalidTrades:
        # What has no meaning is not taken for the same.
        same = False
    return Shared(left.num_rows, right.num_rows, same and left.num_rows == right.num_rows)


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
        if not was_set_aside_before(key):
            message = f"{key.rpartition('/')[2]} is no part; it is left alone"
            yield Finding(Kind.FOREIGN, product, message, keys=(key,))
    for key in find_set_aside(raw, product):
        message = f"{key} was set aside by an earlier healing; no reader takes it for a part"
        remedy = "look at it, and remove it when you like"
        yield Finding(Kind.SET_ASIDE, product, message, remedy, keys=(key,))


def _overlap_finding(
    raw: RawLake, product: str, inspection: Inspection, overlap: Overlap, heal: str, *, deep: bool
) -> Finding:
    left, right = overlap.left, overlap.right
    lo, hi = overlap.shared
    footers = (inspection.footer(left), inspection.footer(right))
    kind = Kind.DUPLICATE if all(f is not None and f.rows for f in footers) else Kind.OVERLAP
    message = f"{left.name} and {right.name} both answer for {counted(hi - lo + 1, 'id')}"
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
        return compare_overlap(raw, overlap)
    except (PartUnreadable, ObjectMissing):
        # Damaged or merged away since it was inspected: the next audit sees what it is now.
        return None


def _in_words(shared: Shared) -> str:
    if shared.same:
        return f"the same {counted(shared.left_rows, 'trade')}"
    return f"{shared.left_rows:,} and {counted(shared.right_rows, 'trade')} that are not the same"


def _where(part: Part) -> tuple[tuple[int, int], tuple[str, ...]]:
    return (part.lo, part.hi), (part.key,)
