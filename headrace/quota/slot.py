"""A booked moment, as its holder knows it, and the permits that are booked several at a time.

At hundreds of permits a second most of a permit's cost is the transaction on the shared file, and
with a dozen processes the switching between them. Permits that leave at the same moment anyway are
therefore booked a few at a time by a process that has shown that it uses them at once: what comes
with a permit is kept here for the next caller, and is void after its guard like any other slot.

The last row of a packet is used first. What is left over then lies before what was used: a process
that looks back a group of rows, to keep its distance, finds that there was no whole group.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from headrace.quota.clock import MS
from headrace.quota.lanes import Lane

#: The last part of its guard, which a permit leaves to its caller for getting going.
SPARE = 3 * MS


class Slot(NamedTuple):
    """A booked moment.

    Attributes:
        ticket: names the booking.
        seq: the row that holds it.
        at: the permit leaves no earlier,
        until: and no later.
        tight: whether `at` rests on settled moments alone; if not, `tighten` may find an earlier.
        weight: how many permits it holds, in as many rows, of which `seq` is the last.
        fixed: whether no other booking can take the moment any more. If not, `confirm` it before
            leaving.
        yields: whether this process should book no other before this one has left.
    """

    ticket: int
    seq: int
    at: int
    until: int
    tight: bool
    weight: int = 1
    fixed: bool = False
    yields: bool = False

    def late(self, now: int) -> bool:
        """Whether the permit can no longer leave on this slot."""
        return now > self.until - SPARE

    def singly(self) -> list[Slot]:
        """The permits of a slot that holds several, each as a slot of its own."""
        if self.weight == 1:
            return [self]
        first = self.seq - self.weight + 1
        return [self._replace(ticket=seq, seq=seq, weight=1) for seq in range(first, self.seq + 1)]


#: The most permits of a packet: what a killed process can take with it, for one window.
MOST = 8


class Packets:
    """What one process has booked but not used yet, by lane. Safe for many threads."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._kept: list[deque[Slot]] = [deque() for _ in Lane]
        self._reach = [1 for _ in Lane]
        self._given_at = [0 for _ in Lane]
        self._awaited = [0 for _ in Lane]

    def next(self, lane: Lane, now: int) -> tuple[Slot | None, Sequence[Slot]]:
        """The next permit that was kept, if any, and those that have become void meanwhile."""
        if not self._kept[lane]:
            return None, ()
        void: list[Slot] = []
        with self._mutex:
            while self._kept[lane]:
                slot = self._kept[lane].pop()
                # The other half of the guard is for the caller, as after any other booking.
                if now <= (slot.at + slot.until) // 2:
                    return slot, void
                void.append(slot)
        return None, void

    def reach(self, lane: Lane, now: int) -> int:
        """How many permits to book together when none is left.

        Twice as many as the last time if the caller was back at once, else one; and one while
        another packet is waited for, so that no more comes at a time than can be used at once.
        """
        with self._mutex:
            if self._awaited[lane]:
                return 1
            back_at_once = now - self._given_at[lane] < SPARE
            self._reach[lane] = min(MOST, 2 * self._reach[lane]) if back_at_once else 1
            return self._reach[lane]

    def awaits(self, lane: Lane, slots: int) -> None:
        """Note that a packet was booked (1), and that it came or did not (-1)."""
        with self._mutex:
            self._awaited[lane] += slots

    def give(self, lane: Lane, now: int, packet: Slot) -> Slot:
        """One permit out of a packet whose moment has come; the rest is kept."""
        with self._mutex:
            self._given_at[lane] = now
            if packet.weight == 1:
                return packet
            *rest, last = packet.singly()
            self._kept[lane].extend(rest)
            return last

    def drain(self) -> list[Slot]:
        """All that is still kept."""
        with self._mutex:
            kept = [slot for lane in self._kept for slot in lane]
            for lane in self._kept:
                lane.clear()
            return kept
