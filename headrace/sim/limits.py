"""Rate limits of the server: the documented token bucket, and a strict sliding window.

Both judge the moments at which requests reach the server, which is what makes a client that only
watches its departures run into them.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Sequence
from email.utils import formatdate
from typing import Annotated, Literal, Protocol

from pydantic import BaseModel, Field

from headrace.sim.exceptions import SpecError
from headrace.sim.http import Reply

RetryAfter = Literal["absent", "seconds", "date", "zero"]
#: Float noise of refilling, in tokens: far below one, far above what a day of clock adds up to.
_NOISE = 1e-6


class Gauge(Protocol):
    """The state of a limit: asked first, and booked only when every limit admits the request."""

    def wait_s(self, now_s: float) -> float:
        """How long until it would admit a request; 0 when it does now."""

    def take(self, now_s: float, *, admitted: bool) -> None:
        """Book a request that was admitted or refused."""


class _Limit(BaseModel, frozen=True, extra="forbid"):
    """Common to all limits.

    Args:
        retry_after: the form of the `Retry-After` header of a 429: none, seconds (rounded up, at
            least 1), an HTTP date, or 0.
        message: what the 429 says.
    """

    retry_after: RetryAfter = "absent"
    message: str = "Public rate limit exceeded"


class TokenBucket(_Limit):
    """A lazily filled token bucket that starts full (Coinbase Exchange documentation, rate limits).

    Args:
        rate_per_s: tokens per second.
        burst: how many it holds.
    """

    kind: Literal["bucket"] = "bucket"
    rate_per_s: float = Field(10.0, gt=0)
    burst: int = Field(15, ge=1)

    def gauge(self) -> Gauge:
        """A full bucket."""
        return _Bucket(self.rate_per_s, self.burst)


class SlidingWindow(_Limit):
    """Never more than `requests` in any `per_s` seconds.

    Args:
        requests: how many.
        per_s: the window's length.
        count_refused: whether refused requests fill the window too.
    """

    kind: Literal["window"] = "window"
    requests: int = Field(10, ge=1)
    per_s: float = Field(1.0, gt=0)
    count_refused: bool = False

    def gauge(self) -> Gauge:
        """An empty window."""
        return _Window(self.requests, self.per_s, count_refused=self.count_refused)


Limit = Annotated[TokenBucket | SlidingWindow, Field(discriminator="kind")]


_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}
_RATE = re.compile(r"(?P<requests>\d+(?:\.\d+)?)/(?P<count>\d*(?:\.\d+)?)(?P<unit>[smh])")


def parse_bucket(text: str, *, burst: int = 15, retry_after: RetryAfter = "absent") -> TokenBucket:
    """A bucket from its rate, `10/s` or `100/m`.

    Raises:
        SpecError: no such rate.
    """
    requests, per_s = _rate(text)
    return TokenBucket(rate_per_s=requests / per_s, burst=burst, retry_after=retry_after)


def parse_window(text: str, *, retry_after: RetryAfter = "absent") -> SlidingWindow:
    """A window from `10/s`, `100/60s` or `100/m`.

    Raises:
        SpecError: no such rate, or not a whole number of requests.
    """
    requests, per_s = _rate(text)
    if requests != int(requests):
        raise SpecError("window", text, "a window holds a whole number of requests")
    return SlidingWindow(requests=int(requests), per_s=per_s, retry_after=retry_after)


def _rate(text: str) -> tuple[float, float]:
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise SpecError("rate", text, "not requests per time", hint="Write 10/s, 100/m or 100/60s")
    requests = float(match["requests"])
    per_s = float(match["count"] or 1) * _UNITS_S[match["unit"]]
    if requests <= 0 or per_s <= 0:
        raise SpecError("rate", text, "zero", hint="Leave the limit out if there is to be none")
    return requests, per_s


class _Bucket:
    def __init__(self, rate_per_s: float, burst: int) -> None:
        self._rate_per_s, self._burst = rate_per_s, burst
        self._tokens = float(burst)
        self._filled_s: float | None = None

    def wait_s(self, now_s: float) -> float:
        if self._filled_s is not None and now_s > self._filled_s:
            gained = (now_s - self._filled_s) * self._rate_per_s
            self._tokens = min(float(self._burst), self._tokens + gained)
        self._filled_s = now_s if self._filled_s is None else max(now_s, self._filled_s)
        return max(0.0, 1 - _NOISE - self._tokens) / self._rate_per_s

    def take(self, now_s: float, *, admitted: bool) -> None:  # noqa: ARG002
        if admitted:
            self._tokens -= 1


class _Window:
    def __init__(self, requests: int, per_s: float, *, count_refused: bool) -> None:
        self._requests, self._per_s, self._count_refused = requests, per_s, count_refused
        self._booked: deque[float] = deque()

    def wait_s(self, now_s: float) -> float:
        while self._booked and self._booked[0] <= now_s - self._per_s:
            self._booked.popleft()
        if len(self._booked) < self._requests:
            return 0.0
        return self._booked[-self._requests] + self._per_s - now_s

    def take(self, now_s: float, *, admitted: bool) -> None:
        if admitted or self._count_refused:
            self._booked.append(now_s)


class Gate:
    """Several limits at once: a request passes all of them or uses none.

    Args:
        limits: what to keep; none means that everything passes.
    """

    def __init__(self, limits: Sequence[Limit]) -> None:
        self._limits = [(limit, limit.gauge()) for limit in limits]

    def refuse(self, now_s: float, unix_s: float) -> Reply | None:
        """Judge a request that reaches the server now; `None` when it passes.

        Args:
            now_s: the server's clock.
            unix_s: wall time, for the date form of `Retry-After`.
        """
        waits = [(gauge.wait_s(now_s), limit) for limit, gauge in self._limits]
        refusals = [(wait_s, limit) for wait_s, limit in waits if wait_s > 0]
        for _, gauge in self._limits:
            gauge.take(now_s, admitted=not refusals)
        if not refusals:
            return None
        wait_s, limit = max(refusals, key=lambda refusal: refusal[0])
        return _too_many(limit, wait_s, unix_s)


def _too_many(limit: Limit, wait_s: float, unix_s: float) -> Reply:
    seconds = max(1, math.ceil(wait_s))
    headers = {
        "absent": {},
        "seconds": {"Retry-After": str(seconds)},
        "date": {"Retry-After": formatdate(unix_s + seconds, usegmt=True)},
        "zero": {"Retry-After": "0"},
    }[limit.retry_after]
    return Reply(429, f'{{"message":"{limit.message}"}}'.encode(), headers=headers)
