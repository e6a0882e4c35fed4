"""The clock of a server, as far as its answers show it.

An answer that says the server's time was made after its question left and before it came back. So
the server's clock is ahead of ours by at least that time less the moment of return, and by at most
that time less the moment of leaving. Of several answers the narrowest bounds hold; they widen as
clocks drift apart. (F. Cristian, "Probabilistic clock synchronization", 1989.)

`now` is the earliest time that the server's clock can show: who waits for a moment by it leaves no
earlier. `slack` is by how much the true time may be later: who notes a moment adds it. So no window
of the server's clock holds more than its limit, however slow the network is; it costs `slack` per
window.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from headrace.quota.clock import MS

#: How far two clocks may drift apart: what NTP corrects at most, 500 millionths.
_DRIFT = 2000
#: Bounds that miss each other by more than this show that a clock was set.
_STEP = 5 * MS


class _Bounds(NamedTuple):
    at: int
    least: int
    most: int


class ServerClock:
    """See the module. Safe for many threads.

    Attributes:
        boot_id: names the span over which the server's state is complete.
        steps: how often the server's clock was set, as far as that was seen.
    """

    def __init__(self, local: Callable[[], int] = time.monotonic_ns) -> None:
        self.boot_id = ""
        self.steps = 0
        self._local = local
        # Replaced as a whole, so that no thread sees half of it.
        self._bounds: _Bounds | None = None
        self._latest = 0

    def learn(self, left: int, returned: int, server: int, unit: int = 1000) -> None:
        """Take in one answer.

        Args:
            left: when the question left, in nanoseconds of the local clock.
            returned: when the answer was there.
            server: what the server's clock showed, in nanoseconds.
            unit: of the server's clock, by which it may have been later.
        """
        least, most = server - returned, server + unit - left
        known = self._bounds
        if known is not None:
            drift = max(0, returned - known.at) // _DRIFT
            narrow = max(least, known.least - drift), min(most, known.most + drift)
            if narrow[0] - narrow[1] > _STEP:
                self.steps += 1
                self._latest = 0
            elif narrow[0] <= narrow[1]:
                least, most = narrow
        self._bounds = _Bounds(returned, least, most)

    def now(self) -> int:
        """Nanoseconds since 1970 that the server's clock shows at least; never goes back."""
        local = self._local()
        bounds = self._known()
        moment = local + bounds.least - max(0, local - bounds.at) // _DRIFT
        # Another thread may note a later one meanwhile; then the next call says that.
        self._latest = max(self._latest, moment)
        return self._latest

    @property
    def slack(self) -> int:
        """How much later than `now` it may be, in nanoseconds."""
        bounds = self._known()
        return bounds.most - bounds.least + 2 * max(0, self._local() - bounds.at) // _DRIFT

    @property
    def ahead(self) -> int:
        """How far the server's clock is ahead of this machine's wall clock, in nanoseconds."""
        return self.now() + self.slack // 2 - time.time_ns()

    def _known(self) -> _Bounds:
        assert self._bounds is not None, "a ledger has asked the server before it uses its clock"
        return self._bounds
