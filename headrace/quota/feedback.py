"""What a server says about its quota in the headers of an answer.

Names of headers are read in any case.
"""

from __future__ import annotations

import email.utils
import math
from collections.abc import Mapping
from datetime import UTC

#: Above this a reset header means seconds since 1970, not seconds from now; and far above it,
#: milliseconds since then.
_EPOCH_FROM = 1e9
_EPOCH_MS_FROM = 1e11

#: No header is believed to ask for longer than a year; what is believed at all, the quota says.
_LONGEST_S = 366 * 86_400.0

_REMAINING = ("ratelimit-remaining", "x-ratelimit-remaining", "x-rate-limit-remaining")
_RESET = ("ratelimit-reset", "x-ratelimit-reset", "x-rate-limit-reset")


def asked_pause_s(
    status: int,
    retry_after: float | None,
    headers: Mapping[str, str] | None,
    wall_s: float,
) -> float:
    """For how many seconds the server asks everybody to wait; 0 if it does not.

    Args:
        status: of the answer.
        retry_after: the pause in seconds, if the caller has read it already.
        headers: of the answer.
        wall_s: Unix time, to read headers that are a moment.
    """
    if retry_after is None and headers and status in (429, 503):
        retry_after = retry_after_s(headers, wall_s)
    if retry_after is None or not math.isfinite(retry_after):
        retry_after = 0.0
    return max(retry_after, pause_s(headers, wall_s) if headers else 0.0)


def pause_s(headers: Mapping[str, str], wall_s: float) -> float:
    """How many seconds nothing should be sent, for nothing remains of the quota; else 0.

    Reads `RateLimit-Remaining`/`-Reset` of the IETF draft "RateLimit header fields for HTTP" and
    the `X-` forms that came before it, whose reset is a number of seconds or a moment in Unix time.

    Args:
        headers: of the answer.
        wall_s: Unix time, to read a reset that is a moment.
    """
    named = {name.lower(): value for name, value in headers.items()}
    remaining = _first_number(named, _REMAINING)
    reset = _first_number(named, _RESET)
    if remaining is None or remaining > 0 or reset is None:
        return 0.0
    if reset > _EPOCH_MS_FROM:
        reset /= 1000
    return _bounded(reset - wall_s if reset > _EPOCH_FROM else reset)


def retry_after_s(headers: Mapping[str, str], wall_s: float) -> float | None:
    """`Retry-After` (RFC 9110, 10.2.3) in seconds from now; None if absent or unreadable.

    Args:
        headers: of the answer.
        wall_s: Unix time, for the form that is a date.
    """
    named = {name.lower(): value for name, value in headers.items()}
    seconds = _first_number(named, ("retry-after",))
    if seconds is not None:
        return _bounded(seconds)
    try:
        moment = email.utils.parsedate_to_datetime(named["retry-after"])
    except (KeyError, ValueError, OverflowError):
        return None
    if moment.tzinfo is None:  # "-0000", which names no zone: an HTTP date is always UTC
        moment = moment.replace(tzinfo=UTC)
    return _bounded(moment.timestamp() - wall_s)


def _first_number(headers: Mapping[str, str], names: tuple[str, ...]) -> float | None:
    for name in names:
        try:
            number = float(headers[name].split(",")[0].split(";")[0])
        except (KeyError, ValueError):  # absent, or not a number: it says nothing
            continue
        if math.isfinite(number):
            return number
    return None


def _bounded(seconds: float) -> float:
    return min(max(0.0, seconds), _LONGEST_S)
