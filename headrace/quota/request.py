"""One request for a permit: its lane, its deadline, and what cancels it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyrate_limiter import RateItem

from headrace.amounts import LONGEST_S
from headrace.quota.breaker import request_id
from headrace.quota.clock import MS, NS, Clock
from headrace.quota.exceptions import PermitTimeout
from headrace.quota.lanes import Lane
from headrace.quota.slot import Slot
from headrace.stopping import StopEvent


def _ignore(_at: int) -> None:
    """For those who need not know when a slot was booked."""


@dataclass(slots=True)
class Request:
    """A request for a permit.

    Args:
        name: of the quota, for messages.
        clock: the time.
        lane: where to queue.
        weight: how many permits, to leave together.
        timeout_s: how long the caller will wait, in seconds; 0 takes what is there at this moment;
            None (or infinity) waits for as long as it takes.
        stop: what cancels it.
        about: what is asked (method, path and query), so that its failures count once at the
            breaker; empty to have each of them count.
        by: the deadline, in nanoseconds of the clock; follows from `timeout_s`.
        on_booked: called with the moment of each slot that is booked, before that is waited for.
    """

    name: str
    clock: Clock
    lane: Lane
    weight: int
    timeout_s: float | None
    stop: StopEvent
    about: str = ""
    by: int | None = None
    on_booked: Callable[[int], object] = _ignore

    def __post_init__(self) -> None:
        if self.by is None and self.timeout_s is not None and self.timeout_s < LONGEST_S:
            self.by = self.clock.now() + int(self.timeout_s * NS)

    @property
    def id(self) -> int | None:
        """What stands for it at the breaker."""
        return request_id(self.about) if self.about else None

    def check(self) -> None:
        """Raise if the request was cancelled or its deadline has passed."""
        self.stop.check()
        if self.by is not None:
            self.refuse_beyond(self.clock.now(), "quota")

    def refuse_beyond(self, at: int, cause: str) -> None:
        """Raise if waiting until `at` is more than the caller allows."""
        if self.by is not None and at > self.by:
            wait_s = max(0.0, (at - self.clock.now()) / NS)
            raise PermitTimeout(self.name, self.timeout_s or 0.0, wait_s, cause)

    def pause(self, seconds: float) -> None:
        """Sleep, unless cancelled."""
        self.stop.sleep(seconds)

    def pause_until(self, at: int) -> None:
        """Sleep until a moment, unless cancelled."""
        self.stop.sleep((at - self.clock.now()) / NS)


class SlotItem(RateItem):
    """A request on its way through pyrate-limiter's `Limiter` into our bucket.

    Attributes:
        request: what is asked for.
        slot: what it got; None until then.
    """

    def __init__(self, request: Request) -> None:
        super().__init__(request.name, request.clock.now() // MS, request.weight)
        self.request = request
        self.slot: Slot | None = None
