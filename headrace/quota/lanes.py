"""Lanes: who goes first when several wait for a permit."""

from __future__ import annotations

from enum import IntEnum


class Lane(IntEnum):
    """The lower the number, the better the lane.

    A better lane overtakes a worse one, but not for ever: see `OVERTAKES`.
    """

    RETRY = 0
    INGEST = 1
    BACKFILL = 2


#: How often in a row those who wait may be overtaken before it is their turn. So a worse lane keeps
#: at least one permit in nine, however much the better ones want.
OVERTAKES = 8

#: How many wait in each lane when nobody does.
NOBODY = (0,) * len(Lane)
