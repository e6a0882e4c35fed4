"""Lanes: who goes first when several wait for a permit, and who may pass whom after booking.

Slots are moments, tickets are the bookings that hold them. A newcomer may take an earlier moment,
and every ticket behind it moves back by one. Two rules, neither of which can starve a ticket:

- A better lane passes a worse one, at most `MAX_PASSES` times per ticket.
- Within a lane processes take turns: the first ticket of one process passes the second of another,
  the second the third, and so on. No ticket passes the first one of a process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple


class Lane(IntEnum):
    """The lower the number, the better the lane.

    A better lane passes a worse one, but not for ever: see `MAX_PASSES`.
    """

    RETRY = 0
    INGEST = 1
    BACKFILL = 2


#: How often in a row those that wait may be passed before they go first. So a worse lane keeps
#: at least one permit in nine, however much the better ones want.
MAX_PASSES = 8

#: How many threads wait in each lane: none.
NONE_WAITING = (0,) * len(Lane)


#: The `passes` of a ticket that may not be passed.
FIXED = -1


class Waiting(NamedTuple):
    """A booked ticket that has not left yet.

    Attributes:
        seq: the row of its slot.
        at: the moment of that slot, in nanoseconds.
        ticket: names the booking.
        owner: the process that booked.
        lane: the lower, the better.
        passes: how often a better lane may still pass it, or `FIXED`.
    """

    seq: int
    at: int
    ticket: int
    owner: int
    lane: int
    passes: int


def find_passable(queue: Sequence[Waiting], owner: int, lane: int) -> Sequence[Waiting]:
    """The tail of the queue (earliest first) that a newcomer may pass; often empty."""
    tickets = Counter((one.owner, one.lane) for one in queue)
    mine = tickets[owner, lane] + 1
    index = len(queue)
    while index:
        ahead = queue[index - 1]
        flow = ahead.owner, ahead.lane
        if ahead.passes == FIXED or ahead.lane < lane or flow == (owner, lane):
            break
        if ahead.lane > lane and ahead.passes == 0:
            break
        if ahead.lane == lane and tickets[flow] <= mine:
            break
        tickets[flow] -= 1
        index -= 1
    return queue[index:]
