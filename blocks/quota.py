"""What an exchange allows, as saved configuration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from prefect.blocks.core import Block
from pydantic import Field

from headrace.quota import (
    BreakerConfig,
    Gate,
    KeyPool,
    PoolKey,
    QuotaConfig,
    open_gate,
    open_key_pool,
    parse_rates,
)


class Quota(Block):
    """One quota and the circuit breaker in front of it, shared by all processes of the machine."""

    _block_type_name = "Headrace Quota"
    _block_type_slug = "headrace-quota"
    _description = "Rates, burst and head-room of a quota, and when to leave a server alone."
    _code_example = (
        "```python\nfrom blocks import Quota\n\n"
        'Quota(rates="15/s").save("signed")\n```\n'
        "then `headrace backfill BTC-USD --rate block:signed`"
    )

    rates: str = Field(
        default="10/s", description="For example 15/s, or 10/s,100/m; none lifts the quota."
    )
    burst: int | None = Field(
        default=None, ge=1, description="Permits at once; empty for half a window, the rest spread."
    )
    anchor_cap_ms: float = Field(
        default=150.0,
        ge=0,
        description="How far a slow answer may move its slot, since servers count arrivals; 0 off.",
    )
    margin_ms: float = Field(
        default=2.0, ge=0, description="By how much every window is stretched."
    )
    breaker_failures: int = Field(
        default=5, ge=1, description="Consecutive server failures that open the breaker."
    )
    breaker_cooldown_s: float = Field(
        default=300.0, gt=0, description="First pause of the breaker, in seconds; it grows."
    )

    def gate(self, folder: Path, name: str, *, outage_limit_s: float | None = None) -> Gate:
        """The gate of the quota called `name`, with its state in `folder`.

        Raises:
            ConfigurationError: rates that contradict each other, or those in use by others.
            StateError: the state cannot be used; no permit is given then.
        """
        return open_gate(folder, self._config(name), self._breaker(), outage_limit_s)

    def key_pool(
        self,
        folder: Path,
        name: str,
        keys: Sequence[PoolKey],
        *,
        outage_limit_s: float | None = None,
    ) -> KeyPool:
        """As `gate`, of a source that gives each of these keys the rates.

        Raises:
            ConfigurationError, StateError: as `gate`, or a key that cannot be used beside others.
        """
        return open_key_pool(folder, self._config(name), keys, self._breaker(), outage_limit_s)

    def _breaker(self) -> BreakerConfig:
        return BreakerConfig(failures=self.breaker_failures, cooldown_s=self.breaker_cooldown_s)

    def _config(self, name: str) -> QuotaConfig:
        return QuotaConfig(
            name=name,
            rates=parse_rates(self.rates),
            burst=self.burst,
            anchor_cap_ms=self.anchor_cap_ms,
            margin_ms=self.margin_ms,
        )
