"""Times as exchanges write them, as exact UTC microseconds.

Rules: trailing zeros of the fraction may be trimmed (`.77Z` is 770 ms) and the fraction may be
missing; digits beyond the sixth are cut off, since a microsecond is what the lake holds; an offset
is applied; a time without one is refused; a leap second (`:60`) counts as the first second of the
next minute, as POSIX time does.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:(Z)|([+-])(\d\d):?(\d\d)?)",
    re.ASCII,
)


def parse_time(text: str) -> datetime:
    """One time, exact to the microsecond, in UTC.

    Raises:
        ValueError: if the text is not a time with a date, a time of day and a zone.
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an ISO 8601 time, such as 2026-01-31T00:00:00Z")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, _utc, sign, offset_hours, offset_minutes = match.groups()[6:]
    microsecond = int((fraction or "0")[:6].ljust(6, "0"))
    offset = timedelta(hours=int(offset_hours or 0), minutes=int(offset_minutes or 0))
    if offset >= timedelta(days=1):
        raise ValueError(f"not a time: {text!r} (an offset is less than a day)")
    zone = timezone(-offset if sign == "-" else offset) if sign else UTC
    leap = timedelta(seconds=1) if second == 60 else timedelta(0)
    try:
        moment = datetime(year, month, day, hour, minute, min(second, 59), microsecond, tzinfo=zone)
        moment = (moment + leap).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"not a time: {text!r} ({error})") from error
    if second > 60:
        raise ValueError(f"not a time: {text!r} (second must be in 0..60)")
    return moment
