"""The settings of a quota and of a circuit breaker."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from headrace.quota.rates import QuotaRate, format_rates, parse_rates

#: Seconds that a run waits for a source that is down, unless it is asked otherwise.
OUTAGE_LIMIT_S: Final = 1800.0

Milliseconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class BufferConfig(_Settings):
    """How far apart requests are kept because their delays to the server differ.

    A server that counts arrivals and wants them in order of departure sees a request early or late
    by what its delay is longer or shorter than another one's. Windows are stretched by the buffer,
    and permits are at least that far apart.

    How much delays differ is learned from the answers (see `headrace.quota.delay_spread`).

    Args:
        initial_ms: before anything is known of a server.
        floor_ms: the least.
        ceiling_ms: the most.
    """

    initial_ms: Milliseconds = 52.0
    floor_ms: Milliseconds = 30.0
    ceiling_ms: Milliseconds = 400.0

    @model_validator(mode="after")
    def _in_order(self) -> BufferConfig:
        if not self.floor_ms <= self.initial_ms <= self.ceiling_ms:
            raise ValueError("initial_ms must lie between floor_ms and ceiling_ms")
        return self


class QuotaConfig(_Settings):
    """One quota: everything on this machine that names it shares it.

    Args:
        name: which quota; usually the host that counts the requests. It becomes part of a file
            name, so it is letters, digits and `. - _ : [ ]` alone.
        rates: what `parse_rates` returns; empty for no limit.
        burst: how many permits of an empty window may go out at once; the rest is spread over it.
            None for half of each window (rounded up), 1 for an even spread.
        guard_ms: a permit is void this long after its slot. Longer forgives a slower scheduler;
            a permit whose release was never confirmed costs the quota as much.
        margin_ms: every window is stretched by this much, at most by 1/500 of itself, for the time
            between the permit and the request's leaving.
        ahead_ms: a process books beyond its next permit only within this time.
        anchor_cap_ms: the most by which a slow answer moves its slot, because the server counted
            the request when it arrived (see `headrace.quota.clock`); less where answers usually
            take longer than that; 0 switches this off.
        slowdown: the factor by which the 429s of one episode stretch every window at most; a lone
            one does by 2 % (see `headrace.quota.feedback`).
        slowdown_cap: the most that such episodes can stretch them together.
        ease: what every success multiplies that stretch by, once no 429 is among the last ones.
        buffer: keeps the order of arrival, too, and takes the place of `anchor_cap_ms` and
            `burst`; None where order does not matter.
        refused_pause_s: for how long nothing leaves after an answer 429 that is not the first among
            the last 20 permits; twice as long as the last time if that is refused again, up to
            `retry_after_cap_s`. 0: permits only become fewer.
        retry_after_cap_s: the longest `Retry-After` (or reset header) that is believed.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_\[][A-Za-z0-9._:\[\]-]{0,127}$")]
    rates: tuple[QuotaRate, ...]
    burst: Annotated[int, Field(ge=1)] | None = None
    guard_ms: Annotated[float, Field(gt=0, le=1000)] = 20.0
    margin_ms: Milliseconds = 2.0
    ahead_ms: Milliseconds = 50.0
    anchor_cap_ms: Milliseconds = 150.0
    slowdown: Annotated[float, Field(ge=1, le=10)] = 1.5
    slowdown_cap: Annotated[float, Field(ge=1, le=100)] = 8.0
    ease: Annotated[float, Field(gt=0, le=1)] = 0.95
    buffer: BufferConfig | None = None
    refused_pause_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    retry_after_cap_s: Seconds = 300.0

    @field_validator("rates", mode="before")
    @classmethod
    def _rates(cls, value: object) -> object:
        if value in ((), []):
            return ()
        return parse_rates(value) if isinstance(value, str | list | tuple) else value

    @property
    def unlimited(self) -> bool:
        """Whether nothing limits the requests."""
        return not self.rates

    @property
    def per_s(self) -> float | None:
        """The mean rate that it sustains, in requests a second; None for no limit."""
        return min((rate.per_second for rate in self.rates), default=None)

    @property
    def signature(self) -> str:
        """What all users of one quota must agree on."""
        burst = "" if self.burst is None else f" burst {self.burst}"
        return format_rates(self.rates) + burst


class BreakerConfig(_Settings):
    """When to leave a failing server alone, and for how long.

    Args:
        failures: consecutive failures of the server that open the breaker.
        successes: consecutive successful probes that close it.
        cooldown_s: the first pause; each failed probe multiplies it.
        cooldown_growth: by this.
        cooldown_cap_s: up to this (or the first pause, if that is longer).
        probe_timeout_s: a probe whose owner has not answered by then is given to another process;
            longer than any request may take.
    """

    failures: Annotated[int, Field(ge=1)] = 5
    successes: Annotated[int, Field(ge=1)] = 3
    cooldown_s: Seconds = 300.0
    cooldown_growth: Annotated[float, Field(ge=1)] = 2.0
    cooldown_cap_s: Seconds = 3600.0
    probe_timeout_s: Seconds = 120.0
