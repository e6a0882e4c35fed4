"""Strips and charts as SVG: a few paths each, whatever the number of ranges.

Colours are classes of the page's style sheet. Nothing from outside becomes markup here but through
`escape`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from html import escape
from math import ceil, log10
from typing import Final

from headrace.coverage import IntervalSet

#: Widths are in these units, which the page stretches to the width that there is.
WIDTH: Final = 600
#: What is drawn last hides what is below, and has a width that can be seen.
KINDS: Final = ("stored", "hole", "missing", "failed")
_LEAST_WIDTH: Final = {"stored": 1, "hole": 1, "missing": 3, "failed": 3}


@dataclass(frozen=True, slots=True)
class Axis:
    """Values from `first` to `last`, inclusive, over the width of a strip."""

    first: float
    last: float

    def at(self, value: float) -> int:
        """Where a value is, from 0 to WIDTH."""
        share = (value - self.first) / max(self.last - self.first, 1e-9)
        return round(min(1.0, max(0.0, share)) * WIDTH)


def strip(
    axis: Axis, ranges: Mapping[str, Iterable[tuple[float, float]]], *, height: int, label: str
) -> str:
    """A bar on which ranges are coloured by their kind.

    Args:
        axis: what the bar spans.
        ranges: by kind, one of KINDS.
        height: in pixels.
        label: what a reader of the screen says, and the mouse shows.
    """
    paths = []
    for kind in KINDS:
        spans = []
        for lo, hi in ranges.get(kind, ()):
            left = axis.at(lo)
            right = max(axis.at(hi), left + _LEAST_WIDTH[kind])
            left = min(left, WIDTH - _LEAST_WIDTH[kind])
            spans.append((left, min(right, WIDTH) - 1))
        drawn = IntervalSet.from_ranges(spans)
        if drawn:
            d = "".join(f"M{lo} 0H{hi + 1}V{height}H{lo}z" for lo, hi in drawn)
            paths.append(f'<path class="{kind}" d="{d}"/>')
    return (
        f'<svg class="strip" viewBox="0 0 {WIDTH} {height}" height="{height}" role="img" '
        f'preserveAspectRatio="none"><title>{escape(label)}</title>{"".join(paths)}</svg>'
    )


def bars(values: Sequence[float], *, height: int, label: str) -> str:
    """One bar per value, as high as its share of the greatest; a value above 0 can be seen."""
    greatest = max(values, default=0) or 1
    step = WIDTH / max(len(values), 1)
    d = []
    for at, value in enumerate(values):
        if value > 0:
            top = height - max(1.0, value / greatest * height)
            d.append(f"M{at * step:.4g} {height}V{top:.3g}H{(at + 1) * step:.4g}V{height}z")
    return (
        f'<svg class="bars" viewBox="0 0 {WIDTH} {height}" height="{height}" role="img" '
        f'preserveAspectRatio="none"><title>{escape(label)}</title><path d="{"".join(d)}"/></svg>'
    )


def binned(days: Mapping[date, int], first: date, last: date, most: int) -> list[int]:
    """Sums over equal bins of whole days from `first` to `last`, at most so many."""
    count = (last - first).days + 1
    per_bin = ceil(count / most)
    sums = [0] * ceil(count / per_bin)
    for day, trades in days.items():
        if first <= day <= last:
            sums[(day - first).days // per_bin] += trades
    return sums


def chart(values: Sequence[float], first: date, last: date, *, label: str) -> str:
    """A chart with lines and labels: values over the days from `first` to `last`."""
    height, left, bottom = 170, 46, 22
    wide = 1000
    top = _round_up(max(values, default=0))
    step = (wide - left) / max(len(values), 1)
    gap = min(1.5, step * 0.15)
    lines, marks = [], []
    for share in (0.0, 0.5, 1.0):
        y = 8 + (1 - share) * height
        lines.append(f'<path class="rule" d="M{left} {y:.5g}H{wide}"/>')
        marks.append(
            f'<text x="{left - 8}" y="{y + 4:.5g}" text-anchor="end">{short(top * share)}</text>'
        )
    d = "".join(
        f"M{left + at * step:.5g} {height + 8}V{8 + height - max(1.0, value / top * height):.4g}"
        f"H{left + (at + 1) * step - gap:.5g}V{height + 8}z"
        for at, value in enumerate(values)
        if value > 0
    )
    for day, anchor in _ticks(first, last):
        x = left + ((day - first).days / ((last - first).days + 1)) * (wide - left)
        marks.append(
            f'<text x="{x:.5g}" y="{height + bottom + 4}" text-anchor="{anchor}">{day}</text>'
        )
    return (
        f'<svg class="chart" viewBox="0 0 {wide} {height + bottom + 10}" role="img">'
        f'<title>{escape(label)}</title>{"".join(lines)}<path class="mark" d="{d}"/>'
        f"{''.join(marks)}</svg>"
    )


def short(value: float) -> str:
    """A number in few characters: 950, 12.5k, 3.1M."""
    for unit, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:.3g}{suffix}"
    return f"{value:.3g}"


def _round_up(value: float) -> float:
    """The next number of the form 1, 2 or 5 x 10^n."""
    if value <= 1:
        return 1.0
    power = 10.0 ** int(log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def _ticks(first: date, last: date) -> list[tuple[date, str]]:
    days = (last - first).days
    if days < 4:
        return [(first, "start")]
    quarters = [first + timedelta(days=round(days * share / 4)) for share in range(1, 4)]
    return [(first, "start"), *((day, "middle") for day in quarters), (last, "end")]
