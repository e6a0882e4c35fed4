"""The circuit breaker as a pure state machine: what happens, to which state, when.

Closed: requests go. After so many consecutive failures of the server it opens: no request goes
until the cooldown is over. Then it is half-open: one request in the whole system goes as a probe,
and the next only when that one has answered. Enough successful probes close it; a failed one opens
it for longer. (M. Nygard, "Release It!", chapter "Circuit Breaker".)

Failures of one request (the same method, path and query) are one piece of evidence, also if there
are many: a page that always fails says nothing about the others (docs/adr/0013).

Every change of phase starts a new epoch, and what is reported for a request counts only in the
epoch in which it left. So the stragglers of an outage neither reopen the breaker nor prolong it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from headrace.quota.clock import NS
from headrace.quota.config import BreakerConfig
from headrace.quota.processes import Owner

#: While one process probes, the others ask again this often, in nanoseconds.
_ASK_AGAIN = NS // 4


def request_id(request: str) -> int:
    """What stands for a request (method, path, query) in the state: 63 bits, alike everywhere."""
    return int.from_bytes(hashlib.blake2b(request.encode(), digest_size=8).digest()) >> 1


class Phase(StrEnum):
    """What the breaker lets through: everything, nothing, one probe at a time."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Pass(NamedTuple):
    """Leave to send one request.

    Attributes:
        epoch: in which it was given.
        probe: the number of the probe, 0 in normal times.
    """

    epoch: int
    probe: int = 0


@dataclass(frozen=True, slots=True)
class BreakerState:
    """Everything that the breaker knows; moments are nanoseconds of the monotonic clock.

    Attributes:
        phase: see `Phase`.
        epoch: counts changes of phase.
        failures: consecutive ones, while closed; those of one request count once.
        failing: the requests among them, by `request_id`.
        successes: consecutive probes that went well, while half-open.
        pauses: how often it has opened since it was last closed.
        outage_began: when it first opened since it was last closed; 0 while closed.
        reopens: when the first probe may go, while open.
        probe: the number of the last probe.
        prober: the process that sends it; None for none.
        probe_until: when it is given up.
    """

    phase: Phase = Phase.CLOSED
    epoch: int = 0
    failures: int = 0
    failing: frozenset[int] = frozenset()
    successes: int = 0
    pauses: int = 0
    outage_began: int = 0
    reopens: int = 0
    probe: int = 0
    prober: Owner | None = None
    probe_until: int = 0

    def ask(self, now: int, who: Owner, config: BreakerConfig) -> tuple[BreakerState, Pass | int]:
        """May a request go?

        Returns:
            The new state, and either a pass or the moment to ask again.
        """
        if self.phase is Phase.CLOSED:
            return self, Pass(self.epoch)
        if self.phase is Phase.OPEN:
            if now < self.reopens:
                return self, self.reopens
            opened = replace(self, phase=Phase.HALF_OPEN, epoch=self.epoch + 1, successes=0)
            return opened._give_probe(now, who, config)
        if self.prober and now < self.probe_until and self.prober.alive:
            return self, min(now + _ASK_AGAIN, self.probe_until)
        return self._give_probe(now, who, config)

    def _give_probe(
        self, now: int, who: Owner, config: BreakerConfig
    ) -> tuple[BreakerState, Pass | int]:
        until = now + int(config.probe_timeout_s * NS)
        state = replace(self, probe=self.probe + 1, prober=who, probe_until=until)
        return state, Pass(state.epoch, state.probe)

    def holds(self, given: Pass) -> bool:
        """Whether a pass is still good."""
        if given.epoch != self.epoch or self.phase is Phase.OPEN:
            return False
        return self.phase is Phase.CLOSED or given.probe == self.probe

    def renewed(self, given: Pass, now: int, config: BreakerConfig) -> BreakerState:
        """The state with the time of a good pass's probe begun again."""
        if not given.probe:
            return self
        return replace(self, probe_until=now + int(config.probe_timeout_s * NS))

    def succeeded(self, given: Pass, config: BreakerConfig) -> BreakerState:
        """The server answered a request."""
        if not self.holds(given):
            return self
        if self.phase is Phase.CLOSED:
            return replace(self, failures=0, failing=frozenset()) if self.failures else self
        if self.successes + 1 >= config.successes:
            return BreakerState(epoch=self.epoch + 1, probe=self.probe)
        return replace(self, successes=self.successes + 1, prober=None)

    def failed(
        self, given: Pass, now: int, config: BreakerConfig, request: int | None = None
    ) -> BreakerState:
        """The server failed to answer a request; None for a failure that is of no one request."""
        if not self.holds(given):
            return self
        if self.phase is Phase.CLOSED:
            if request in self.failing:
                return self
            if self.failures + 1 < config.failures:
                failing = self.failing if request is None else self.failing | {request}
                return replace(self, failures=self.failures + 1, failing=failing)
        return replace(
            self,
            phase=Phase.OPEN,
            epoch=self.epoch + 1,
            failures=self.failures + 1,
            failing=frozenset(),
            pauses=self.pauses + 1,
            outage_began=self.outage_began or now,
            reopens=now + self.cooldown(config),
            prober=None,
        )

    def dropped(self, given: Pass) -> BreakerState:
        """A request ended and shows nothing about the server: its probe is free again."""
        if given.probe and self.holds(given):
            return replace(self, prober=None)
        return self

    def cooldown(self, config: BreakerConfig) -> int:
        """How long the next pause is, in nanoseconds."""
        longest = max(config.cooldown_s, config.cooldown_cap_s)
        grown = config.cooldown_s * config.cooldown_growth ** min(self.pauses, 64)
        return int(min(longest, grown) * NS)

    def restarted(self, now: int, config: BreakerConfig) -> BreakerState:
        """The state after a reboot, when its moments mean nothing: a pause begins again."""
        if self.phase is Phase.CLOSED:
            return self
        pause = replace(self, pauses=max(0, self.pauses - 1)).cooldown(config)
        return replace(
            self,
            phase=Phase.OPEN,
            epoch=self.epoch + 1,
            prober=None,
            outage_began=now,
            reopens=now + pause,
        )
