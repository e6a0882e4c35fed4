"""The quota as a pyrate-limiter bucket and limiter: decorators, async, transports.

    limiter = SlotLimiter(gate, lane=Lane.INGEST)
    limiter.try_acquire("trades")
    client = httpx.Client(transport=RateLimiterTransport(limiter))

`SlotBucket` in pyrate-limiter's own `Limiter` is as exact; but that limiter asks, sleeps and asks
again, so it gets less of a quota that others want too. `SlotLimiter` books.
"""

from __future__ import annotations

from pyrate_limiter import AbstractBucket, Limiter, RateItem
from pyrate_limiter.abstracts.algorithm import Decision

from headrace.errors import ConfigurationError
from headrace.quota.clock import MS
from headrace.quota.exceptions import PermitTimeout
from headrace.quota.gate import Gate
from headrace.quota.lanes import Lane
from headrace.stopping import StopEvent


class SlotBucket(AbstractBucket):
    """A bucket on the shared slots of a gate. The breaker has no part in it.

    Args:
        gate: an open gate with a limit; whoever opened it closes it.
        lane: where to queue.

    Raises:
        ConfigurationError: the gate has no limit.
    """

    is_async = False

    def __init__(self, gate: Gate, lane: Lane = Lane.BACKFILL) -> None:
        if gate.config.unlimited:
            raise ConfigurationError(
                f"quota {gate.config.name!r} has no rates, so there is no bucket",
                hint="Call the function without a limiter, or give rates",
            )
        self.gate = gate
        self.lane = lane
        self.rates = [rate.as_pyrate() for rate in gate.config.rates]

    def now(self) -> int:
        """Milliseconds of the gate's clock."""
        return self.gate.clock.now() // MS

    def put(self, item: RateItem) -> bool:
        """Take a permit if there is one at this moment; else note how long to wait."""
        if item.weight > self.rates[0].limit:
            return self._record(item, Decision(failing_rate=self.rates[0]))
        at = self.gate.take_now(self.lane, item.weight)
        if at is None:
            return self._record(item, Decision())
        wait_ms = -(-at // MS) - item.timestamp
        return self._record(
            item, Decision(failing_rate=self.rates[0], retry_after_ms=max(0, wait_ms))
        )

    def waiting(self, item: RateItem) -> int:
        """Milliseconds until `put` may succeed; -1 if it never can."""
        if item.weight > self.rates[0].limit:
            return -1
        return self._recorded_wait(item) or 0

    def leak(self, current_timestamp: int | None = None) -> int:  # noqa: ARG002 - the interface
        """Nothing to do: every booking removes what no longer counts."""
        return 0

    def flush(self) -> None:
        """Forget all permits given."""
        self.gate.forget()
        self.failing_rate = None

    def count(self) -> int:
        """How many permits the longest window holds."""
        return self.gate.status().book.windows[-1].used

    def peek(self, index: int) -> RateItem | None:
        """The permit at `index`, latest first."""
        moments = self.gate.moments()
        return RateItem(self.lane.name.lower(), moments[index] // MS) if moments[index:] else None


class SlotLimiter(Limiter):
    """pyrate-limiter's `Limiter`, except that it books a slot and sleeps until it comes.

    Args:
        gate: an open gate with a limit.
        lane: where to queue.
    """

    def __init__(self, gate: Gate, lane: Lane = Lane.BACKFILL) -> None:
        super().__init__(SlotBucket(gate, lane), buffer_ms=0)
        self._gate = gate
        self._lane = lane

    def _try_acquire(
        self,
        name: str,  # noqa: ARG002 - the interface's; one gate is one quota
        weight: int,
        blocking: bool,
        timeout: float = -1,
        _force_async: bool = False,
        _allow_async_result: bool = True,
    ) -> bool:
        return self._acquire(weight, blocking, timeout, None)

    async def try_acquire_async(
        self,
        name: str = "pyrate",  # noqa: ARG002 - as above
        weight: int = 1,
        blocking: bool = True,
        timeout: float = -1,
    ) -> bool:
        """As `try_acquire`, but the waiting is done by a thread, never by the event loop."""
        self._check(blocking, timeout)
        return await self._gate.in_thread(
            lambda stop: self._acquire(weight, blocking, timeout, stop)
        )

    def _acquire(self, weight: int, blocking: bool, timeout: float, stop: StopEvent | None) -> bool:
        if weight == 0:
            return True
        if weight > self._gate.config.rates[0].limit:
            return False
        if not blocking:
            return self._gate.take_now(self._lane, weight) is None
        try:
            self._gate.take(self._lane, weight, None if timeout == -1 else timeout, stop)
        except PermitTimeout:
            return False
        return True

    @staticmethod
    def _check(blocking: bool, timeout: float) -> None:
        """The same errors as the synchronous form of pyrate-limiter."""
        if timeout < 0 and timeout != -1:
            raise ValueError("timeout must be -1 or >= 0")
        if not blocking and timeout != -1:
            raise RuntimeError("Can't set timeout with non-blocking")
