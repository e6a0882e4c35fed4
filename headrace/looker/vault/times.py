"""Times as Looker writes them, and as the vault keeps them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

# 2018-02-05 20:33:54 +0000 and 2018-02-05 20:33:54 UTC are in old bodies; neither is ISO 8601.
_LOOSE = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T]+(\d\d:\d\d(?::\d\d(?:\.\d+)?)?))?\s*(Z|UTC|[+-]\d\d:?\d\d)?"
)


def utc_text(moment: datetime) -> str:
    """As in 2018-02-05T20:33:54.000000Z, which sorts as text."""
    naive = moment.astimezone(UTC).replace(tzinfo=None)
    return f"{naive.isoformat(timespec='microseconds')}Z"


@lru_cache(maxsize=4096)
def server_time(text: str) -> str | None:
    """A time of a body in the vault's form, or None if it is no time that can be read.

    A time without a zone is UTC, which is what Looker means by it.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        found = _LOOSE.fullmatch(text.strip())
        if found is None:
            return None
        day, clock, zone = found.groups()
        zone = "+00:00" if zone in (None, "UTC", "Z") else zone
        try:
            moment = datetime.fromisoformat(f"{day}T{clock or '00:00'}{zone}")
        except ValueError:
            return None
    if moment.tzinfo is UTC:  # the common case, at a third of the cost
        return f"{moment.isoformat(timespec='microseconds')[:26]}Z"
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return utc_text(moment)
    except OverflowError:
        return None
