"""How well a quota was kept and used, from the moments at which permits came (nanoseconds)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

#: From so many moments of a window a stretch of time is begun.
_BEGINNINGS = 1000


class Excess(NamedTuple):
    """How far a limit was exceeded.

    Attributes:
        permits: the most above the limit in any window.
        early_ms: by how much the earliest permit came too early.
    """

    permits: int
    early_ms: float


def excess(grants: Sequence[int], limit: int, window_ns: int) -> Excess:
    """Check every window of a sorted sequence."""
    early = max(
        (window_ns - (b - a) for a, b in zip(grants, grants[limit:], strict=False)), default=0
    )
    most, first = 0, 0
    for index, moment in enumerate(grants):
        while moment - grants[first] >= window_ns:
            first += 1
        most = max(most, index - first + 1)
    return Excess(max(0, most - limit), max(0, early) / 1e6)


def used_share(grants: Sequence[int], limit: int, window_ns: int) -> float:
    """The share of the quota that was used, without the first two windows and the last.

    In the last one those who took permits have begun to stop. Permits come in groups, so how many
    lie in a stretch of time depends on where it begins: the mean over all beginnings within one
    window counts.
    """
    first, last = grants[0] + 2 * window_ns, grants[-1] - window_ns
    windows = (last - first) // window_ns - 1
    if windows < 1:
        return float("nan")
    length = windows * window_ns
    begins = range(first, first + window_ns, max(1, window_ns // _BEGINNINGS))
    seen = sum(bisect_left(grants, begin + length) - bisect_left(grants, begin) for begin in begins)
    return seen / (len(begins) * windows * limit)


def jain(counts: Sequence[int]) -> float:
    """Jain's index of fairness: 1 when all got the same, 1/n when one got everything.

    R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness", DEC TR-301, 1984.
    """
    squares = sum(count * count for count in counts)
    return sum(counts) ** 2 / (len(counts) * squares) if squares else float("nan")


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of all values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
