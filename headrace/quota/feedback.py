"""What a server says about its quota: headers of its answers, and answers 429.

`asked_pause_s` reads the headers, with names in any case. `Counters` counts permits, answers 429
and waits of this process. The rest is how far answers 429 slow a quota down, and how it gets back
to full speed.

One 429 among many answers that go well is no reason to halve the rate: at most a small part of the
requests is too many. A wall of them is. So what counts is how many of the latest permits, of all
processes, were refused:

- A refusal stretches every window by a factor that grows with the refusals among the last `RECENT`
  permits: 2 % for one alone, all of `QuotaConfig.slowdown` from `WALL` on. Requests that had left
  before the last slow-down add to the evidence, but all of them together make one episode: 45
  simultaneous refusals stretch by that factor once.
- Answers that go well ease it, once none of the last `RECENT` permits was refused.
- It is not eased beyond what the refusals among the last `LONG` permits ask for: if one in ten was
  refused, a tenth of the requests is too many, and at full speed it would be so again.
"""

from __future__ import annotations

import email.utils
import logging
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from typing import Literal

from headrace.quota.clock import NS

#: Above this a reset header means seconds since 1970, not seconds from now; and far above it,
#: milliseconds since then.
_EPOCH_FROM = 1e9
_EPOCH_MS_FROM = 1e11

#: No header is believed to ask for longer than a year; what is believed at all, the quota says.
_LONGEST_S = 366 * 86_400.0

_REMAINING = ("ratelimit-remaining", "x-ratelimit-remaining", "x-rate-limit-remaining")
_RESET = ("ratelimit-reset", "x-ratelimit-reset", "x-rate-limit-reset")


def asked_pause_s(
    status: int, retry_after: float | None, headers: Mapping[str, str] | None, wall_s: float
) -> float:
    """For how many seconds the server asks all clients to wait; 0 if it does not.

    Args:
        status: of the answer.
        retry_after: the pause in seconds, if the caller has read it already.
        headers: of the answer.
        wall_s: Unix time, to read headers that are a moment.
    """
    if retry_after is None and headers and status in (429, 503):
        retry_after = retry_after_s(headers, wall_s)
    if retry_after is None or not math.isfinite(retry_after):
        retry_after = 0.0
    return max(retry_after, pause_s(headers, wall_s) if headers else 0.0)


def pause_s(headers: Mapping[str, str], wall_s: float) -> float:
    """How many seconds nothing should be sent, for nothing remains of the quota; else 0.

    Reads `RateLimit-Remaining`/`-Reset` of the IETF draft "RateLimit header fields for HTTP" and
    the `X-` forms that came before it, whose reset is a number of seconds or a moment in Unix time.

    Args:
        headers: of the answer.
        wall_s: Unix time, to read a reset that is a moment.
    """
    named = {name.lower(): value for name, value in headers.items()}
    remaining = _first_number(named, _REMAINING)
    reset = _first_number(named, _RESET)
    if remaining is None or remaining > 0 or reset is None:
        return 0.0
    if reset > _EPOCH_MS_FROM:
        reset /= 1000
    return _bounded(reset - wall_s if reset > _EPOCH_FROM else reset)


def retry_after_s(headers: Mapping[str, str], wall_s: float) -> float | None:
    """`Retry-After` (RFC 9110, 10.2.3) in seconds from now; None if absent or unreadable.

    Args:
        headers: of the answer.
        wall_s: Unix time, for the form that is a date.
    """
    named = {name.lower(): value for name, value in headers.items()}
    seconds = _first_number(named, ("retry-after",))
    if seconds is not None:
        return _bounded(seconds)
    try:
        moment = email.utils.parsedate_to_datetime(named["retry-after"])
    except (KeyError, ValueError, OverflowError):
        return None
    if moment.tzinfo is None:  # "-0000", which names no zone: an HTTP date is always UTC
        moment = moment.replace(tzinfo=UTC)
    return _bounded(moment.timestamp() - wall_s)


def _first_number(headers: Mapping[str, str], names: tuple[str, ...]) -> float | None:
    for name in names:
        try:
            number = float(headers[name].split(",")[0].split(";")[0])
        except (KeyError, ValueError):  # absent, or not a number: it says nothing
            continue
        if math.isfinite(number):
            return number
    return None


def _bounded(seconds: float) -> float:
    return min(max(0.0, seconds), _LONGEST_S)


Cause = Literal["quota", "breaker"]


class Counters:
    """Counts of one process since its gate was opened.

    Attributes:
        admitted: permits given.
        throttled: answers 429.
        waited_s: seconds spent waiting, summed over all threads, by cause.
    """

    def __init__(self) -> None:
        self.admitted = 0
        self.throttled = 0
        self.waited_s: dict[Cause, float] = {"quota": 0.0, "breaker": 0.0}
        self._now_waiting: dict[Cause, int] = {"quota": 0, "breaker": 0}
        self._mutex = threading.Lock()

    def count(self, *, admitted: int = 0, throttled: int = 0) -> None:
        """Add to the counts."""
        with self._mutex:
            self.admitted += admitted
            self.throttled += throttled

    @contextmanager
    def waiting(self, cause: Cause, now: Callable[[], int]) -> Iterator[None]:
        """Account for a wait."""
        began = now()
        with self._mutex:
            self._now_waiting[cause] += 1
        try:
            yield
        finally:
            waited = now() - began
            with self._mutex:
                self._now_waiting[cause] -= 1
                self.waited_s[cause] += waited / NS

    def waiting_for(self) -> Cause | None:
        """What threads of this process wait for at this moment, the breaker first."""
        if self._now_waiting["breaker"]:
            return "breaker"
        return "quota" if self._now_waiting["quota"] else None


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


def stretch_factor(refusals: int, most: float) -> float:
    """What so many refusals among the last `RECENT` permits stretch windows by, at most `most`."""
    return 1 + (most - 1) * (min(refusals, WALL) / WALL) ** 2


def ease(slowdown: float, ease: float, refusals: int) -> float:
    """A stretch after answers that went well.

    Args:
        slowdown: before.
        ease: what they multiply it by.
        refusals: among the last `LONG` permits.
    """
    lasting = 1 / (1 - min(refusals / LONG, _MOST_LASTING))
    slowdown = max(slowdown * ease, min(slowdown, lasting))
    return slowdown if slowdown > _EASED else 1.0


@dataclass(frozen=True, slots=True)
class SlowdownChange:
    """A quota slowed down noticeably after answers 429, or is at full speed again.

    Attributes:
        name: of the quota.
        percent: of its rates, what it allows now.
        elapsed_s: since this process saw it at full speed last.
        throttled, requests: answers 429, of so many requests, of this process in that time.
    """

    name: str
    percent: int
    elapsed_s: float
    throttled: int
    requests: int

    @property
    def over(self) -> bool:
        """Whether it is at full speed again."""
        return self.percent == 100


class SlowdownLog:
    """One line when a quota slows down noticeably and one when that is over, with counts.

    Args:
        name: of the quota.
        counters: of this process.
        now: the clock, in nanoseconds.
        listeners: called with each change of which there is a line, and at full speed also where
            this process began in the rest of a slow-down.
    """

    def __init__(
        self,
        name: str,
        counters: Counters,
        now: Callable[[], int],
        listeners: Sequence[Callable[[SlowdownChange], object]] = (),
    ) -> None:
        self._listeners = listeners
        self._name = name
        self._counters = counters
        self._now = now
        self._mutex = threading.Lock()
        self._full_speed = self._counts()
        self._most = 1.0
        #: Whether this process began in what may be the rest of a slow-down; None: not known yet.
        self._inherited: bool | None = None

    def note(self, slowdown: float) -> None:
        """Report a change, if that is one; called with every answer, when it was counted."""
        if slowdown == 1:
            if self._most > NOTICEABLE or self._inherited:
                self._call(slowdown)
            if self._most > NOTICEABLE:
                self.end("full speed again")
            self._inherited = False
            self._full_speed, self._most = self._counts(), 1.0
            return
        if self._inherited is None:
            self._inherited = True
        if slowdown > self._most:
            with self._mutex:
                begins = slowdown > NOTICEABLE >= self._most
                self._most = max(self._most, slowdown)
            if begins:
                log.warning("quota %s: 429: slowing down to %.0f %%", self._name, 100 / slowdown)
                self._call(slowdown)

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

    def _call(self, slowdown: float) -> None:
        (began, *before), (now, *counts) = self._full_speed, self._counts()
        requests, throttled = (after - then for then, after in zip(before, counts, strict=True))
        percent = round(100 / slowdown)
        change = SlowdownChange(self._name, percent, (now - began) / NS, throttled, requests)
        for listener in self._listeners:
            listener(change)

    def _counts(self) -> tuple[int, int, int]:
        return self._now(), self._counters.admitted, self._counters.throttled
