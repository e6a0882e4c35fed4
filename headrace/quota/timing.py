"""When the next slot can lie.

Three things decide: the rates, exactly; a spread that keeps windows from being used up at once;
and room for processes that had less. Only the first is needed for the limit to hold.
"""

from __future__ import annotations

import logging
import math
import sqlite3
from typing import NamedTuple

from headrace.quota.clock import MS, NS
from headrace.quota.config import QuotaConfig
from headrace.quota.feedback import NOTICEABLE
from headrace.quota.lanes import Lane
from headrace.quota.register import Register, State

log = logging.getLogger(__name__)

_ENDS = "SELECT ifnull((SELECT min(seq) FROM slots), 1), ifnull((SELECT max(seq) FROM slots), 0)"
# Both walk the index alone; without INDEXED BY the second one would sort the table instead.
_LATEST = "SELECT until, settled FROM slots ORDER BY until DESC LIMIT 1 OFFSET ?"
_LATEST_BEFORE = (
    "SELECT until, settled FROM slots INDEXED BY slots_until "
    "WHERE seq < ? ORDER BY until DESC LIMIT 1 OFFSET ?"
)
_RECENTLY = (
    "SELECT owner, count(*), max(iif(lane < ?, at, 0)) FROM slots WHERE seq > ? GROUP BY owner"
)
_TWO_MOMENTS = "SELECT (SELECT at FROM slots WHERE seq = ?), (SELECT at FROM slots WHERE seq = ?)"

#: Permits that would follow each other within this time go out together: fewer wake-ups.
_GROUP = NS // 2
#: Such groups keep this part of the even distance; the rest makes up for lateness.
_SPACING = 0.9
#: Among so many latest slots (four times as many where permits are dense) a process that has had
#: more than its part, or is in a worse lane than a booking a moment ago, books so far ahead instead
#: of at once, where it can be passed.
_LATEST_SLOTS, _A_MOMENT, _COURTESY = 32, 50 * MS, MS
#: The most that requests are kept apart for their order, of the even distance.
_EVEN = 1.05
#: Permits this close to each other are booked as one packet.
_TOGETHER = MS


class Spacing(NamedTuple):
    """How a window is used.

    Attributes:
        limit: permits in the window.
        length: of the window, in nanoseconds.
        burst: so many permits may go out at once when the window is empty.
        group: while more than a burst of it is used, so many go out together.
    """

    limit: int
    length: int
    burst: int
    group: int


class Moment(NamedTuple):
    """A possible slot.

    Attributes:
        newest: the number of the newest row.
        at: when the slot would lie.
        tight: whether that rests on settled moments alone.
        yields: whether other processes should go first.
        behind: whether this process had less than its part lately.
    """

    newest: int
    at: int
    tight: bool
    yields: bool
    behind: bool


class Timing:
    """Works out moments for one process; its methods run inside transactions.

    Args:
        config: the quota.
        register: this process among the others.
        guard: how long a permit may leave after its moment, in nanoseconds.
    """

    def __init__(self, config: QuotaConfig, register: Register, guard: int) -> None:
        self._config = config
        self._register = register
        self._windows = windows(config)
        self._longest = self._windows[-1][1]
        #: Whether permits are further apart than their guard.
        self.sparse = max(length / limit for limit, length in self._windows) >= guard
        self._latest_slots = _LATEST_SLOTS * (1 if self.sparse else 4)
        self._spacings = [
            Spacing(limit, length, burst, min(burst, math.ceil(limit * _GROUP / length)))
            for limit, length in self._windows
            if (burst := _burst(config) or (limit + 1) // 2) < limit
        ]

    def next_slot(
        self,
        connection: sqlite3.Connection,
        now: int,
        state: State,
        lane: Lane,
        weight: int,
        *,
        at_once: bool,
    ) -> Moment:
        """When a new booking of so many permits can leave.

        Args:
            connection: in a transaction.
            now: the time.
            state: of the quota.
            lane: who asks.
            weight: permits to leave together.
            at_once: whether the caller cannot wait, and so cannot yield either.
        """
        oldest, newest = connection.execute(_ENDS).fetchone()
        at, tight = self._earliest(connection, now, state, weight, newest - oldest + 1)
        at = self._spaced(connection, at, state, newest)
        yields, behind = False, True
        if not (at_once or self._register.alone):
            yields, behind = self._fair_share(connection, now, newest, lane)
        if yields:
            at = max(at, now + _COURTESY)
        if at - now > self._longest:
            at = self._plausible(connection, now, state, weight, at)
        return Moment(newest, at, tight, yields, behind)

    def together(
        self, connection: sqlite3.Connection, now: int, state: State, moment: Moment, most: int
    ) -> tuple[int, int]:
        """How many permits can be booked at a moment or a little later, and when.

        At most this process's part of those that go out together, rounded down unless it had less
        than its part lately.
        """
        newest, at = moment.newest, moment.at
        group = min(spacing.group for spacing in self._spacings) if self._spacings else most
        owners = max(1, self._register.owners)
        # Where a whole window may go out at once, nothing but its limit bounds a packet.
        most = min(most, *(limit for limit, _ in self._windows))
        weight = min(most, (group + moment.behind * (owners - 1)) // owners)
        while weight > 1:
            together, _ = self._earliest(connection, now, state, weight, newest)
            # The last of them follows rows that will lie at this moment, too.
            together = self._spaced(connection, max(at, together), state, newest + weight - 1)
            if together <= at + _TOGETHER:
                return weight, together
            weight //= 2
        return 1, at

    def booked_slot(
        self, connection: sqlite3.Connection, now: int, state: State, seq: int, weight: int
    ) -> tuple[int, bool]:
        """When the booking up to row `seq` can leave, looking only at those booked before it.

        Returns:
            The moment, and whether it rests on settled moments alone.
        """
        first = seq - weight + 1
        at, tight = self._earliest(connection, now, state, weight, first, before=first)
        return self._spaced(connection, at, state, first - 1), tight

    def _earliest(
        self,
        connection: sqlite3.Connection,
        now: int,
        state: State,
        weight: int,
        rows: int,
        before: int | None = None,
    ) -> tuple[int, bool]:
        """When the rates allow a slot, and whether that rests on settled moments alone.

        Considers the rows booked before the row `before`, or all; there are at most `rows`. A row
        that was given back says nothing: its moment, 0, may lie within a window of the boot.
        """
        at, tight = max(now, state.blocked_until), True
        for limit, length in self._windows:
            if rows <= limit - weight:
                break
            if before is None:
                row = connection.execute(_LATEST, (limit - weight,)).fetchone()
            else:
                row = connection.execute(_LATEST_BEFORE, (before, limit - weight)).fetchone()
            if row and row[0] > 0:
                bound = row[0] + int((length + state.buffer) * state.slowdown)
                if bound > at:
                    at, tight = bound, bool(row[1])
        if (distance := self.distance(state)) and rows:
            # In order of arrival: the next request cannot overtake the one before.
            if before is None:
                row = connection.execute(_LATEST, (0,)).fetchone()
            else:
                row = connection.execute(_LATEST_BEFORE, (before, 0)).fetchone()
            if row and row[0] > 0 and row[0] + distance > at:
                at, tight = row[0] + distance, bool(row[1])
        return at, tight

    def distance(self, state: State) -> int:
        """What keeps requests in order: the buffer, but not more than an even spread.

        Where delays differ by more than that, few requests are overtaken, and sending those again
        costs less than keeping all so far apart.
        """
        return min(
            state.buffer, int(_EVEN * max(length // limit for limit, length in self._windows))
        )

    def _spaced(self, connection: sqlite3.Connection, at: int, state: State, newest: int) -> int:
        """Keep a distance between bursts, and between all permits after the server's refusal.

        A window that was used up at once would open at once again, for ever, and a process that
        came in between would wait for its end.
        """
        slowed = state.slowdown > NOTICEABLE
        for limit, length, burst, group in self._spacings:
            free, together = (1, 1) if slowed else (burst, group)
            used_from, last = connection.execute(
                _TWO_MOMENTS, (newest - free + 1, newest - together + 1)
            ).fetchone()
            window = length * state.slowdown
            if used_from and last and used_from > at - window:
                at = max(at, last + int(_SPACING * together * window / limit))
        return at

    def _fair_share(
        self, connection: sqlite3.Connection, now: int, newest: int, lane: Lane
    ) -> tuple[bool, bool]:
        """Whether others should have a chance at a slot that is free at this moment.

        Returns:
            That, and whether this process had less than its part of the latest slots.
        """
        mine, in_all, owners, better = 0, 0, 0, False
        for owner, count, better_at in connection.execute(
            _RECENTLY, (lane, newest - self._latest_slots)
        ):
            better = better or better_at > now - _A_MOMENT
            mine += count if owner == self._register.owner else 0
            in_all += count
            owners += 1
        greedy = owners > 1 and mine > 2 + 1.25 * in_all / owners
        return better or greedy, mine * owners < in_all

    def _plausible(
        self, connection: sqlite3.Connection, now: int, state: State, weight: int, at: int
    ) -> int:
        """Drop slots that lie further ahead than the waiting processes can have booked."""
        owners = connection.execute(
            "SELECT count(DISTINCT owner) FROM slots WHERE at > ?", (now,)
        ).fetchone()[0]
        stretch = self._config.slowdown_cap
        horizon = max(now, state.blocked_until) + max(
            int(length * stretch) * (2 + owners // limit) for limit, length in self._windows
        )
        if at <= horizon:
            return at
        dropped = connection.execute("DELETE FROM slots WHERE until > ?", (horizon,)).rowcount
        if not dropped:
            return at  # all of them are plausible, and this one follows from them
        log.warning(
            "quota %s: %d slots lay up to %.0f s in the future; dropped, and waiting one window",
            self._config.name,
            dropped,
            (at - now) / NS,
        )
        self._register.block(connection, now + self._longest)
        state = self._register.state(connection, now)
        oldest, newest = connection.execute(_ENDS).fetchone()
        at, _ = self._earliest(connection, now, state, weight, newest - oldest + 1)
        return self._spaced(connection, at, state, newest)


def _burst(config: QuotaConfig) -> int | None:
    return config.burst if config.buffer is None else 1


def windows(config: QuotaConfig) -> list[tuple[int, int]]:
    """The rates as (limit, length of the window in nanoseconds, with its margin)."""
    return [
        (
            rate.limit,
            rate.interval_ms * MS + int(min(config.margin_ms * MS, rate.interval_ms * MS / 500)),
        )
        for rate in config.rates
    ]
