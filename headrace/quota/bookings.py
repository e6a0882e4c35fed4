"""The book of slots: which moments belong to whom, shared by all processes through SQLite.

A caller books a moment and then sleeps until it comes; nothing polls. For every rate (`limit` in
`interval`) a new slot lies at

    at = max(now, blocked_until, limit-th latest `until` of all slots + interval)

where `until` is the last moment at which a booked permit can have left: its slot plus a guard,
until its process settles when it really left. Why this is exact: take any window shorter than the
interval and, of the permits that left in it, the one booked last. The others had been booked
before it, and each has an `until` inside the window, so later than that one's `at` less the
interval; of those there are at most `limit - 1`.

All times here are nanoseconds of the monotonic clock.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from headrace.quota.clock import MS, NS, Clock
from headrace.quota.config import QuotaConfig
from headrace.quota.exceptions import QuotaUnavailable
from headrace.quota.lanes import FIXED, MAX_PASSES, NONE_WAITING, Lane, Waiting, find_passable
from headrace.quota.register import FORGET, TABLES, VERSION, Register, State
from headrace.quota.server_outage import patiently
from headrace.quota.slot import Slot
from headrace.quota.status import BookStatus
from headrace.quota.storage import Shareable, StateFile, StateStore
from headrace.quota.timing import Timing, windows

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

#: A booking that an answer has shown to be too early by less than this leaves nevertheless.
_MOVED = MS // 2
_INSERT = "INSERT INTO slots VALUES (?, ?, ?, 0, ?, ?, ?, ?)"
_SETTLE = "UPDATE slots SET until = ?, settled = 1 WHERE seq = ? AND until > 0"
# Less what every window is stretched by, since nothing of that is needed once an arrival is known.
_ARRIVED = (
    "UPDATE slots SET until = ? - (SELECT buffer FROM keyed), settled = 2 "
    "WHERE seq = ? AND until > 0"
)
# What goes back lies in no window, and in no group that others have to keep a distance from. It is
# kept as a row, so that its number is not given out again.
_VOID = "UPDATE slots SET at = 0, until = 0, settled = 1 WHERE seq BETWEEN ? AND ? AND until > 0"
_TRIM = "DELETE FROM slots WHERE seq IN (SELECT seq FROM slots WHERE until < ? AND seq < ? LIMIT ?)"
_OTHERS_WAIT = "SELECT 1 FROM slots WHERE until > ? AND (owner != ? OR lane != ?) LIMIT 1"
_QUEUE = (
    "SELECT seq, at, ticket, owner, lane, passes FROM slots "
    "WHERE until > ? AND at > ? AND at <= ? AND settled = 0 ORDER BY at, seq"
)
_HOLDER = "SELECT seq, at, until, ticket FROM slots WHERE seq = ?"
_HOLDING = "SELECT seq, at, until, ticket FROM slots WHERE ticket = ?"
_HAND_OVER = "UPDATE slots SET ticket = ?, owner = ?, lane = ?, passes = ? WHERE seq = ?"
_MOVE = "UPDATE slots SET at = ?, until = ? WHERE seq = ?"
_RESET = "UPDATE slots SET at = ?, until = ?, passes = ifnull(?, passes) WHERE seq BETWEEN ? AND ?"
_MOMENTS = "SELECT until FROM slots WHERE until > 0 ORDER BY until DESC"

#: A slot this near is not taken from its holder any more.
_IMMINENT = MS // 5
#: The most that a booking is asked for before its moment, where a server is slow.
_MOST_LEAD = NS // 4
#: What a buffer shrinks by at a time, of what it is too large: another process may have seen more.
_SHRINKS = 1 / 4
#: A buffer that is right to this much stays.
_SAME = MS // 2
#: Old rows go a few at a time, so that a book of millions never makes a caller wait.
_TRIM_EVERY, _TRIM_ROWS = 16, 64


class SlotBook:
    """The slots of one quota, as one process sees and books them. Safe for many threads.

    Raises:
        QuotaUnavailable: the file cannot be used.
        RatesConflict: live processes use it with other rates.
    """

    def __init__(
        self, path: Path | str, config: QuotaConfig, clock: Clock, ledger: Shareable | None = None
    ) -> None:
        self.config = config
        self.path = path
        self._clock = clock
        self._windows = windows(config)
        self.shortest, self.longest = self._windows[0][1], self._windows[-1][1]
        self.guard = min(int(config.guard_ms * MS), self.shortest)
        # A booking more than a window ahead rests on one that has not left, which may rest on a
        # third, and each reserves a guard. Looked at again within less than a window, it is worked
        # out from what has left before the next one is booked upon it: so guards never add up.
        self.relook = self.shortest - min(3 * self.guard, self.shortest // 2)
        self._anchored = config.buffer is None and config.anchor_cap_ms > 0
        self.slowdown = 1.0
        self.buffer = 0
        self._mutex = threading.Lock()
        self._left: deque[tuple[str, tuple[int, int]]] = deque()  # what is to be settled, as SQL
        self._well: deque[tuple[int, int]] = deque()  # (seq, sent) of those that went well
        # What was fixed before the state was lost still leaves, so much later.
        lost = self.longest + 3 * self.guard + (0 if ledger is None else _MOST_LEAD)
        self._register = Register(path, config, clock, lost, shared=ledger is not None)
        self._timing = Timing(config, self._register, self.guard)
        found = self._register.found
        self._file: StateStore = (
            StateFile(Path(path), schema=TABLES, version=VERSION, found=found)
            if ledger is None
            else ledger.attach(found)
        )

    # -- booking --------------------------------------------------------------------------------

    def book(
        self,
        lane: Lane,
        *,
        weight: int = 1,
        by: int | None = None,
        waiting: Sequence[int] = NONE_WAITING,
        reach: int = 1,
    ) -> Slot | int:
        """Book the next slot.

        Args:
            lane: who asks; a better lane may take a moment that a worse one had booked.
            weight: permits that leave together.
            by: book nothing if the slot would lie later than this, and not now (0: now or never).
            waiting: how many threads of this process wait, by lane; noted now and then.
            reach: so many permits may be booked together where that delays none of them.

        Returns:
            The slot, of `weight` permits or of up to `reach`; or when it would have been, if that
            is later than `by`.
        """
        with self._mutex:
            return self._change(self._book, lane, weight, by, waiting, reach)

    def tighten(self, slot: Slot, *, fix: bool = True) -> Slot | None:
        """Look again, before the moment, when earlier permits have settled.

        The slot may move, forward as a rule, and is fixed then if that is wanted.

        None when the booking is gone (the quota was reset or its file replaced).
        """
        with self._mutex:
            return self._change(self._tighten, slot, fix)

    def confirm(self, slot: Slot) -> Slot | None:
        """Ask, when the moment has come, whether the booking still holds it.

        Returns:
            The slot that it holds now (a later one if it was passed, or if an answer has shown
            since that the server counted an earlier request later), or None when the booking is
            void: the server asked for a pause, or the quota was reset.
        """
        with self._mutex:
            held, allowed = self._file.look(self._confirm, slot)
            if held is not None and held.fixed and not allowed:
                return self._change(self._tighten, held, True)
            return held

    def delay(self, slot: Slot) -> Slot | None:
        """Move a booking that missed its moment to now, or to when a slow server has answered.

        Only if that delays no other booking.

        If it would, the booking is given back, and None is returned: book again.
        """
        with self._mutex:
            return self._change(self._delay, slot)

    def give_back(self, slot: Slot) -> None:
        """Return a booking that will not be used."""
        self._report(self._give_back, slot)

    def settle(self, slot: Slot, until: int) -> None:
        """Note when a permit really left; written with this process's next booking.

        Calling it again corrects the moment. `until` may lie after the slot's own, where the
        answer shows that the server counted the request later. 0 says that it did not leave.
        """
        if until:
            until += self._clock.slack
        for seq in range(slot.seq - slot.weight + 1, slot.seq + 1):
            self._left.append((_SETTLE, (until, seq)) if until else (_VOID, (seq, seq)))

    def arrived(self, slot: Slot, by: int) -> None:
        """Note by when a request has arrived, less the delay of the fastest; as `settle`.

        From then on nothing is kept apart from it by the buffer.
        """
        self._left.append((_ARRIVED, (by + self._clock.slack, slot.seq)))

    @property
    def urgent(self) -> bool:
        """Whether others gain by knowing at once when a permit left.

        Where permits are further apart than their guard, this process may not be back before
        another booking is made by that moment.
        """
        return self._timing.sparse and not self._register.alone

    def flush(self) -> None:
        """Write at once what has settled."""
        self._report(_nothing_else)

    def status(self) -> BookStatus:
        """What the book looks like to all processes now."""
        with self._mutex:
            return self._change(self._status)

    def moments(self) -> list[int]:
        """When the permits that are still remembered left, latest first."""
        with self._mutex:
            return self._change(self._moments)

    def forget(self) -> None:
        """Drop all bookings; those who wait book again."""
        with self._mutex:
            self._change(_forget)

    @property
    def lead(self) -> int:
        """How long before its moment a booking has to be asked for, in nanoseconds.

        A slot of this very moment is over when the answer of a slow server is there, and so is the
        next one. What is short beside the guard does not matter: 0.
        """
        takes = self._file.takes
        return min(takes, _MOST_LEAD) if takes > self.guard // 4 else 0

    def least_wait(self, permits: int) -> int:
        """The least time, in nanoseconds, in which so many permits can go out."""
        return max((permits - 1) // limit * length for limit, length in self._windows)

    def refused(self, slot: Slot, sent: int) -> int:
        """The server answered 429; see `Register.refused`. Returns the pause, in nanoseconds."""
        state, pause = self._report(self._register.refused, slot.seq, sent)
        self.slowdown = state.slowdown
        return pause

    def went_well(self, slot: Slot, sent: int) -> None:
        """Note an answer that may ease a slow-down; written with this process's next booking."""
        if self.slowdown > 1:
            self._well.append((slot.seq, sent))

    def nonce(self, slot: Slot, least: int) -> int:
        """Note that a permit leaves now, and number its request, as one transaction.

        Returns:
            A nonce above all that were given before, and at least `least`.
        """
        with self._mutex:
            return self._change(self._nonce, slot.seq, least)

    def adapt(self, spread: int) -> None:
        """Bring the buffer towards the spread of the outbound delays, in nanoseconds.

        It grows at once, and shrinks by and by, since another process may have seen more.
        """
        if abs(spread - self.buffer) < _SAME:
            return
        wanted = max(spread, int(self.buffer - _SHRINKS * (self.buffer - spread)))
        self.buffer = self._report(self._register.adapt, wanted)

    def pause(self, pause: int) -> None:
        """The server asks for a pause of so many nanoseconds; too long a time is cut."""
        most = int(self.config.retry_after_cap_s * NS)
        self._report(self._register.block, self._clock.now() + min(pause, most))

    def hold(self) -> None:
        """Let no thread of this process into the file until `release`: a fork is under way."""
        self._mutex.acquire()

    def release(self) -> None:
        """End what `hold` began."""
        self._mutex.release()

    def close(self) -> None:
        """Settle, sign off and close the file."""
        with self._mutex:
            try:
                self._change(self._register.leave)
            except QuotaUnavailable as error:
                # Others see that this process has ended, and what it booked passes by itself.
                log.warning("%s", error)
            finally:
                self._file.close()

    def _report(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kw: P.kwargs
    ) -> T:
        """Change what follows from an answer; it is not lost because a server is away."""

        def change() -> T:
            with self._mutex:
                return self._change(work, *args, **kw)

        return patiently(change)

    def _change(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kw: P.kwargs
    ) -> T:
        """Write what has settled or gone well, and do `work`, as one transaction; needs the mutex.

        What this process remembers changes with the file or not at all: after a rollback (a full
        disk, a locked file) the same permits are written by the next transaction.
        """
        noted = self._register.noted
        # By index: other threads add to its end meanwhile.
        settled = [self._left[place] for place in range(len(self._left))]
        well = [self._well[place] for place in range(len(self._well))]

        def transact(connection: sqlite3.Connection) -> T:
            self._register.noted = noted  # begun once more on a new file if this one is damaged
            for statement, values in settled:
                connection.execute(statement, values)
            if well:
                self._register.ease(connection, well)
            return work(connection, *args, **kw)

        try:
            done = self._file.change(transact)
        except BaseException:
            self._register.noted = noted
            raise
        for _ in settled:
            self._left.popleft()
        for _ in well:
            self._well.popleft()
        return done

    # -- inside transactions --------------------------------------------------------------------

    def _book(
        self,
        connection: sqlite3.Connection,
        lane: Lane,
        weight: int,
        by: int | None,
        waiting: Sequence[int],
        reach: int,
    ) -> Slot | int:
        past = self._clock.now()
        now = past if by == 0 else past + self.lead
        state = self._register.state(connection, now)
        self.slowdown, self.buffer = state.slowdown, state.buffer
        moment = self._timing.next_slot(connection, now, state, lane, weight, at_once=by == 0)
        newest, at, tight, yields, _ = moment
        behind: Sequence[Waiting] = ()
        if at > now + _IMMINENT and weight == 1:
            behind = self._find_passable(connection, now, at, lane)
        mine = behind[0].at if behind else at
        if by is not None and mine > max(by, now):
            return mine
        if reach > 1 and weight == 1 and not (behind or yields):
            weight, at = self._timing.together(connection, now, state, moment, reach)
        until = at + self.guard
        passes = MAX_PASSES if by is None and weight == 1 else FIXED
        owner = self._register.owner
        for _ in range(weight):
            newest += 1
            connection.execute(_INSERT, (newest, at, until, newest, owner, lane, passes))
        if newest % _TRIM_EVERY < weight:
            gone = past - int((self.longest + state.buffer) * state.slowdown)
            connection.execute(_TRIM, (gone, newest, _TRIM_ROWS))
        self._register.note(connection, now, weight, waiting)
        fixed = at <= now + _IMMINENT
        slot = Slot(newest, newest, at, until, tight, weight, fixed, yields)
        return self._rotate(connection, behind, slot, lane, passes) if behind else slot

    def _find_passable(
        self, connection: sqlite3.Connection, now: int, at: int, lane: Lane
    ) -> Sequence[Waiting]:
        near = now + _IMMINENT
        flow = (near + self.guard, self._register.owner, lane)
        if connection.execute(_OTHERS_WAIT, flow).fetchone() is None:
            return ()
        rows = connection.execute(_QUEUE, (near + self.guard, near, at)).fetchall()
        return find_passable([Waiting(*row) for row in rows], self._register.owner, lane)

    def _rotate(
        self,
        connection: sqlite3.Connection,
        behind: Sequence[Waiting],
        last: Slot,
        lane: Lane,
        passes: int,
    ) -> Slot:
        """Give the newcomer the first slot of those behind it, and each of them the next one."""
        rows = [one.seq for one in behind] + [last.seq]
        for one, seq in zip(behind, rows[1:], strict=True):
            left = one.passes - (one.lane > lane)
            connection.execute(_HAND_OVER, (one.ticket, one.owner, one.lane, left, seq))
        connection.execute(_HAND_OVER, (last.ticket, self._register.owner, lane, passes, rows[0]))
        seq, at, until, _ = connection.execute(_HOLDER, (rows[0],)).fetchone()
        return last._replace(seq=seq, at=at, until=until, tight=False)

    def _held(self, connection: sqlite3.Connection, slot: Slot) -> Slot | None:
        """The slot that a ticket holds now: mostly its own, else the one that it was moved to."""
        row = connection.execute(_HOLDER, (slot.seq,)).fetchone()
        if row is not None and row[3] == slot.ticket and row[2]:
            return slot._replace(at=row[1], until=row[2], fixed=False)
        row = connection.execute(_HOLDING, (slot.ticket,)).fetchone()
        if row is None or not row[2]:
            return None
        return slot._replace(seq=row[0], at=row[1], until=row[2], tight=False, fixed=False)

    def _tighten(self, connection: sqlite3.Connection, slot: Slot, fix: bool) -> Slot | None:
        now = self._clock.now()
        held = self._held(connection, slot)
        if held is None:
            return None
        state = self._register.state(connection, now)
        soonest = now + self.lead
        at, tight = self._timing.booked_slot(connection, soonest, state, held.seq, held.weight)
        until, passes = at + self.guard, FIXED if fix else None
        first = held.seq - held.weight + 1
        connection.execute(_RESET, (at, until, passes, first, held.seq))
        return held._replace(at=at, until=until, tight=fix or tight, fixed=fix)

    def _confirm(self, connection: sqlite3.Connection, slot: Slot) -> tuple[Slot | None, bool]:
        now = self._clock.now()
        held = self._held(connection, slot)
        state = self._register.state(connection, now)
        if held is None or held.at < state.blocked_until:
            return None, False
        return held._replace(fixed=held.at <= now), self._allowed(connection, held, state)

    def _allowed(self, connection: sqlite3.Connection, held: Slot, state: State) -> bool:
        """Whether a booking may still leave at its moment, by what is known of those before it.

        They had left when it was made, but were not answered: an answer can move them. Where
        permits are close together, answers come too late for that, and the look is not worth it.
        """
        if not (self._anchored and self._timing.sparse):
            return True
        at, _ = self._timing.booked_slot(connection, held.at, state, held.seq, held.weight)
        return at <= held.at + _MOVED

    def _delay(self, connection: sqlite3.Connection, slot: Slot) -> Slot | None:
        held = self._held(connection, slot)
        if held is None:
            return None
        # Bookings a window after this slot rely on its `until`; those before do not.
        last = connection.execute("SELECT max(at) FROM slots").fetchone()[0]
        now = self._clock.now()
        distance = self._timing.distance(self._register.state(connection, now))
        if last >= held.until + (distance or self.shortest) or held.weight > 1:
            self._give_back(connection, held)
            return None
        at = now + self.lead
        connection.execute(_MOVE, (at, at + self.guard, held.seq))
        return held._replace(at=at, until=at + self.guard, fixed=True)

    def _give_back(self, connection: sqlite3.Connection, slot: Slot) -> None:
        held = self._held(connection, slot)
        if held is not None:
            connection.execute(_VOID, (held.seq - held.weight + 1, held.seq))

    def _nonce(self, connection: sqlite3.Connection, seq: int, least: int) -> int:
        # Under the lock, since the wait for it may be long.
        connection.execute(_SETTLE, (self._clock.now() + self._clock.slack, seq))
        return self._register.nonce(connection, least)

    def _status(self, connection: sqlite3.Connection) -> BookStatus:
        now = self._clock.now()
        state = self._register.state(connection, now)
        return BookStatus.read(connection, self.config, state, now)

    def _moments(self, connection: sqlite3.Connection) -> list[int]:
        return [until for (until,) in connection.execute(_MOMENTS)]


def _nothing_else(_connection: sqlite3.Connection) -> None:
    """For a transaction that only writes what has settled."""


def _forget(connection: sqlite3.Connection) -> None:
    connection.execute(FORGET)
