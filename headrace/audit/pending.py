"""Which missing ids are so young that the next ingest is still to come for them.

A product that trades all the time is always ahead of its last ingest. That is no gap, as long as
it is ahead by no more than the lag that the audit allows.
"""

from __future__ import annotations

from datetime import datetime

from headrace.coverage import EMPTY, IntervalSet
from headrace.exchange.history import History, first_id_since
from headrace.exchange.source import Source


def pending_of(client: Source, product: str, missing: IntervalSet, since: datetime) -> IntervalSet:
    """The ids of `missing` that were traded at or after `since`.

    Ids rise with time, so it is one moment in the history that is looked for, from the newest gap
    downwards: one request where less than a page is missing, some more where the last ingest was
    long ago.

    Raises:
        ExchangeError: as the client's.
    """
    if missing.last is None:
        return EMPTY
    youngest = missing.last + 1
    for lo, hi in reversed(missing.ranges):
        youngest = first_id_since(client, product, since, History(lo, hi))
        if youngest > lo:
            break
    return missing & IntervalSet.of((min(youngest, missing.last + 1), missing.last + 1))
