"""The quota as a pyrate-limiter bucket, and the limiter through which every permit is acquired.

    limiter = SlotLimiter(gate, lane=Lane.INGEST)
    limiter.try_acquire("trades")
    client = httpx.Client(transport=RateLimiterTransport(limiter))

An item of ours (`SlotItem`) gets its slot in `put`, which books it and waits for its moment: the
library's own wait cannot be called off and counts in milliseconds (ADR 2 has the figures). An item
of pyrate-limiter's own gets what is there at this moment, and its `Limiter` asks, sleeps and asks
again: that is as exact, but gets less of a quota that others want too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from pyrate_limiter import AbstractBucket, Limiter, RateItem
from pyrate_limiter.abstracts.algorithm import Decision
from pyrate_limiter.limiter import SingleBucketFactory

from headrace.errors import ConfigurationError
from headrace.quota.clock import MS, Clock
from headrace.quota.config import QuotaConfig
from headrace.quota.exceptions import PermitTimeout
from headrace.quota.lanes import Lane
from headrace.quota.request import SlotItem
from headrace.quota.status import QuotaStatus
from headrace.stopping import StopEvent

T = TypeVar("T")


class Permits(Protocol):
    """What bucket and limiter need of a gate; see `headrace.quota.gate.Gate`."""

    config: QuotaConfig
    clock: Clock

    def fill(self, item: SlotItem) -> None:
        """Give an item its slot."""

    def take(
        self, lane: Lane, weight: int, timeout_s: float | None, stop: StopEvent | None
    ) -> None:
        """Wait for a permit."""

    def take_now(self, lane: Lane, weight: int) -> int | None:
        """Take a permit that is there, or say when there may be one."""

    async def in_thread(self, work: Callable[[StopEvent], T]) -> T:
        """Run work that waits."""

    def forget(self) -> None:
        """Forget all permits given."""

    def moments(self) -> list[int]:
        """When they left."""

    def status(self) -> QuotaStatus:
        """How full the windows are."""


class SlotBucket(AbstractBucket):
    """A bucket on the shared slots of a gate. The breaker has no part in it.

    Args:
        gate: an open gate with a limit; the caller that opened it closes it.
        lane: where to queue.

    Raises:
        ConfigurationError: the gate has no limit.
    """

    is_async = False

    def __init__(self, gate: Permits, lane: Lane = Lane.BACKFILL) -> None:
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
        """Take a permit: an item of ours when its slot has come, another one now or not at all.

        Raises:
            Stopped, PermitTimeout, QuotaUnavailable: as `Gate.take`, for an item of ours.
        """
        if isinstance(item, SlotItem):
            self.gate.fill(item)
            return True
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
    """pyrate-limiter's `Limiter` over the slots of a gate; a gate has one for all its requests.

    Args:
        gate: an open gate with a limit.
        lane: where to queue.
    """

    def __init__(self, gate: Permits, lane: Lane = Lane.BACKFILL) -> None:
        self._bucket = SlotBucket(gate, lane)
        super().__init__(SingleBucketFactory(self._bucket, schedule_leak=False), buffer_ms=0)
        self._gate = gate
        self._lane = lane

    def put(self, item: SlotItem) -> None:
        """Wait for the permit of an item of ours: what every request of the gate does.

        Raises:
            Stopped, PermitTimeout, QuotaUnavailable: as `Gate.take`; nothing stays booked.
        """
        self.handle_bucket_put(self._bucket, item, blocking=True)

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
