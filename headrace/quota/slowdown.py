"""How far answers 429 slow a quota down, and how it gets back to full speed.

One 429 among many answers that go well is no reason to halve the rate: whatever it was, at most a
small part of the requests is too many. A wall of them is. So what counts is how many of the latest
permits, of all processes, were refused:

- A refusal stretches every window by a factor that grows with the refusals among the last `RECENT`
  permits: 2 % for one alone, all of `QuotaConfig.slowdown` from `WALL` on. Requests that had left
  before the last slow-down add to the evidence, but all of them together make one episode: 45
  simultaneous refusals stretch by that factor once.
- Answers that go well ease it, once none of the last `RECENT` permits was refused.
- It is not eased beyond what the refusals among the last `LONG` permits ask for: if one in ten was
  refused, a tenth of the requests is too many, and at full speed it would be so again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from headrace.quota.clock import NS
from headrace.quota.counters import Counters

log = logging.getLogger(__name__)

RECENT, WALL, LONG = 20, 5, 200
#: What a server refused longer ago, in nanoseconds, says nothing about it now.
BELIEVED = 600 * NS
#: A stretch beyond this is reported, and spreads permits evenly; below it, bursts stay.
NOTICEABLE = 1.2
#: Below this, a slow-down is over.
_EASED = 1.01
#: The share of refusals that is believed to be lasting.
_MOST_LASTING = 0.5


def factor(refusals: int, most: float) -> float:
    """What so many refusals among the last `RECENT` permits stretch windows by, at most `most`."""
    return 1 + (most - 1) * (min(refusals, WALL) / WALL) ** 2


def eased(slowdown: float, ease: float, refusals: int) -> float:
    """A stretch after answers that went well.

    Args:
        slowdown: before.
        ease: what they multiply it by.
        refusals: among the last `LONG` permits.
    """
    lasting = 1 / (1 - min(refusals / LONG, _MOST_LASTING))
    slowdown = max(slowdown * ease, min(slowdown, lasting))
    return slowdown if slowdown > _EASED else 1.0


class SlowdownLog:
    """One line when a quota slows down noticeably and one when that is over, with counts.

    Args:
        name: of the quota.
        counters: of this process.
        now: the clock, in nanoseconds.
    """

    def __init__(self, name: str, counters: Counters, now: Callable[[], int]) -> None:
        self._name = name
        self._counters = counters
        self._now = now
        self._mutex = threading.Lock()
        self._full_speed = self._counts()
        self._most = 1.0

    def note(self, slowdown: float) -> None:
        """Report a change, if that is one; called with every answer, when it was counted."""
        if slowdown == 1:
            if self._most > NOTICEABLE:
                self.end("full speed again")
            self._full_speed, self._most = self._counts(), 1.0
        elif slowdown > self._most:
            with self._mutex:
                begins = slowdown > NOTICEABLE >= self._most
                self._most = max(self._most, slowdown)
            if begins:
                log.warning("quota %s: 429: slowing down to %.0f %%", self._name, 100 / slowdown)

    def end(self, how: str) -> None:
        """Report the end, if there was a beginning."""
        with self._mutex:
            most, self._most = self._most, 1.0
        if most <= NOTICEABLE:
            return
        began, admitted, throttled = self._full_speed
        now, admitted_now, throttled_now = self._counts()
        log.warning(
            "quota %s: %s after %.0f s (%.0f %% at the slowest); 429 was the answer to %d of %d "
            "requests",
            self._name,
            how,
            (now - began) / NS,
            100 / most,
            throttled_now - throttled,
            admitted_now - admitted,
        )

    def _counts(self) -> tuple[int, int, int]:
        return self._now(), self._counters.admitted, self._counters.throttled
