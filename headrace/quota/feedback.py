"""What a server says about its quota in the headers of an answer.

Names of headers are read in any case.
"""

from __future__ import annotations

import email.utils
from collections.abc import Mapping

#: Above this a reset header means seconds since 1970, not seconds from now.
_EPOCH_FROM = 1e9

_REMAINING = ("ratelimit-remaining", "x-ratelimit-remaining", "x-rate-limit-remaining")
_RESET = ("ratelimit-reset", "x-ratelimit-reset", "x-rate-limit-reset")


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
    return max(0.0, reset - wall_s if reset > _EPOCH_FROM else reset)


def retry_after_s(headers: Mapping[str, str], wall_s: float) -> float | None:
    """`Retry-After` (RFC 9110, 10.2.3) in seconds from now; None if absent or unreadable.

    Args:
        headers: of the answer.
        wall_s: Unix time, for the form that is a date.
    """
    named = {name.lower(): value for name, value in headers.items()}
    seconds = _first_number(named, ("retry-after",))
    if seconds is not None:
        return max(0.0, seconds)
    try:
        return max(
            0.0, email.utils.parsedate_to_datetime(named["retry-after"]).timestamp() - wall_s
        )
    except (KeyError, ValueError):
        return None


def _first_number(headers: Mapping[str, str], names: tuple[str, ...]) -> float | None:
    for name in names:
        try:
            return float(headers[name].split(",")[0].split(";")[0])
        except (KeyError, ValueError):  # absent, or not a number: it says nothing
            continue
    return None
