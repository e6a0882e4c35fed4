"""Durations and counts: how long is the longest, and both in words."""

from __future__ import annotations

#: Some thirty years, which arithmetic in nanoseconds of 64 bits can hold. No setting is longer, and
#: a limit from here on, infinity among them, is none.
LONGEST_S = 1e9


def duration(seconds: float) -> str:
    """Seconds in words: 4.2 s, 3 m 20 s, 2 h 05 m."""
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} m"


def counted(count: int, one: str, several: str = "") -> str:
    """A count with its noun: 1 breach, 1,200 trades.

    Args:
        one: the noun, and what else agrees with it, for a count of one (`breach`, `id is`).
        several: the same for other counts (`ids are`); empty for the regular plural of `one`.
    """
    if count == 1:
        return f"1 {one}"
    ending = "es" if one.endswith(("ch", "s")) else "s"
    return f"{count:,} {several or one + ending}"
