"""A booked moment, as its holder knows it."""

from __future__ import annotations

from typing import NamedTuple

from headrace.quota.clock import MS

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
        fixed: whether nobody can take the moment any more. If not, `confirm` it before leaving.
        polite: whether this process should book no other before this one has left.
    """

    ticket: int
    seq: int
    at: int
    until: int
    tight: bool
    weight: int = 1
    fixed: bool = False
    polite: bool = False

    def late(self, now: int) -> bool:
        """Whether the permit can no longer leave on this slot."""
        return now > self.until - SPARE

    def singly(self) -> list[Slot]:
        """The permits of a slot that holds several, each as a slot of its own."""
        if self.weight == 1:
            return [self]
        first = self.seq - self.weight + 1
        return [self._replace(ticket=seq, seq=seq, weight=1) for seq in range(first, self.seq + 1)]
