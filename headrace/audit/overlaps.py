"""Parts that share ids: how many trades they both hold, and whether these are the same."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.lake import Overlap, RawLake, content_digest
from headrace.lake.exceptions import InvalidTrades
from headrace.lake.rows import rows_between


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


def shared_by(raw: RawLake, overlap: Overlap) -> Shared:
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
