"""Rates: how many requests may fall into any window of a given length."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from headrace.quota.exceptions import RatesError

if TYPE_CHECKING:
    import pyrate_limiter

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_UNIT_NAMES = {"sec": "s", "second": "s", "min": "m", "minute": "m", "hour": "h", "day": "d"}
_RATE = re.compile(r"(\d+)\s*/\s*(\d*)\s*([a-z]+)")


class QuotaRate(NamedTuple):
    """At most `limit` requests in any window of `interval_ms` milliseconds, wherever it starts."""

    limit: int
    interval_ms: int

    @property
    def per_second(self) -> float:
        """The mean rate in requests per second."""
        return self.limit * 1000 / self.interval_ms

    def as_pyrate(self) -> pyrate_limiter.Rate:
        """The same rate in pyrate-limiter's terms."""
        import pyrate_limiter  # not for help

        return pyrate_limiter.Rate(self.limit, self.interval_ms)

    def __str__(self) -> str:
        for unit, size_ms in reversed(_UNITS_MS.items()):
            count, rest = divmod(self.interval_ms, size_ms)
            if not rest:
                return f"{self.limit}/{count if count > 1 else ''}{unit}"
        raise AssertionError("every interval is a whole number of milliseconds")


#: What a quota counts is kept as rows, and moments as nanoseconds in 64 bits.
_MOST = 1_000_000
_LONGEST_MS = 366 * _UNITS_MS["d"]

#: No rates: nothing limits the requests.
UNLIMITED: tuple[QuotaRate, ...] = ()


def parse_rates(value: str | Sequence[object]) -> tuple[QuotaRate, ...]:
    """Read rates, shortest window first.

    Args:
        value: `"15/s"`, `"10/s,100/m"`, `"1/500ms"`, `"none"` (no limit), or a sequence of such
            texts, of `QuotaRate`s or of pyrate-limiter `Rate`s.

    Raises:
        RatesError: a rate cannot be read, is zero, or contradicts another one.
    """
    parts: list[object] = []
    for piece in [value] if isinstance(value, str) else value:
        parts.extend(piece.split(",") if isinstance(piece, str) else [piece])
    if len(parts) == 1 and isinstance(parts[0], str) and parts[0].strip().lower() == "none":
        return UNLIMITED
    if not parts:
        raise RatesError(value, "no rate is given")
    rates = sorted((_read(part) for part in parts), key=lambda rate: rate.interval_ms)
    _check_together(rates)
    return tuple(rates)


def format_rates(rates: Sequence[QuotaRate]) -> str:
    """Write rates in the form that `parse_rates` reads."""
    return ",".join(map(str, rates)) or "none"


def _read(part: object) -> QuotaRate:
    if not isinstance(part, str | QuotaRate):
        import pyrate_limiter  # not for help

        if isinstance(part, pyrate_limiter.Rate):
            part = QuotaRate(part.limit, part.interval)
    if isinstance(part, str):
        match = _RATE.fullmatch(part.strip().lower())
        if not match:
            raise RatesError(part, "it does not read as <requests>/<time>")
        limit, count, unit = match.groups()
        unit = unit.removesuffix("s") if unit.removesuffix("s") in _UNIT_NAMES else unit
        unit = _UNIT_NAMES.get(unit, unit)
        if unit not in _UNITS_MS:
            raise RatesError(part, f"unknown unit of time {unit!r} (ms, s, m, h or d)")
        part = QuotaRate(int(limit), int(count or 1) * _UNITS_MS[unit])
    if not isinstance(part, QuotaRate):
        raise RatesError(part, "it is neither a text nor a rate")
    if part.limit < 1 or part.interval_ms < 1:
        raise RatesError(
            f"{part.limit}/{part.interval_ms}ms", "requests and time must be at least 1"
        )
    if part.limit > _MOST or part.interval_ms > _LONGEST_MS:
        raise RatesError(_short(str(part)), f"more than {_MOST:,} requests, or than a year")
    return part


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}..."


def _check_together(rates: Sequence[QuotaRate]) -> None:
    """Each longer window must allow more requests, at a mean rate that is no higher."""
    for short, long in itertools.pairwise(rates):
        pair = f"{short},{long}"
        if long.interval_ms == short.interval_ms:
            raise RatesError(pair, "two rates over the same time; keep the lower one")
        if long.limit <= short.limit:
            raise RatesError(pair, f"{long} makes {short} meaningless; give {long} alone")
        if long.per_second > short.per_second:
            raise RatesError(pair, f"{long} can never be reached under {short}; leave it out")
