"""What an exchange allows, as saved configuration."""

from __future__ import annotations

from collections.abc import Sequence

from prefect.blocks.core import Block
from pydantic import Field, SecretStr

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
from headrace.quota.location import Place, QuotaServer, read_server


class Quota(Block):
    """One quota and the circuit breaker in front of it, shared by all processes that use it."""

    _block_type_name = "Headrace Quota"
    _block_type_slug = "headrace-quota"
    _description = "Rates, burst and head-room of a quota, and when to leave a server alone."
    _code_example = (
        "```python\nfrom blocks import Quota\n\n"
        'Quota(rates="15/s").save("signed")\n```\n'
        "then `headrace backfill BTC-USD --rate block:signed`"
    )

    rates: str = Field("10/s", description="For example 15/s, or 10/s,100/m; none lifts the quota.")
    burst: int | None = Field(
        None, ge=1, description="Permits at once; empty for half a window, the rest spread."
    )
    anchor_cap_ms: float = Field(
        150.0,
        ge=0,
        description="How far a slow answer may move its slot, since servers count arrivals; 0 off.",
    )
    location: SecretStr | None = Field(
        None,
        description="Where it lives: redis://:PASSWORD@HOST:6379/0, rediss://... or "
        "postgres://USER:PASSWORD@HOST/DATABASE; empty for HEADRACE_QUOTA, or this machine.",
    )
    margin_ms: float = Field(2.0, ge=0, description="By how much every window is stretched.")
    breaker_failures: int = Field(
        5, ge=1, description="Consecutive server failures that open the breaker."
    )
    breaker_cooldown_s: float = Field(
        300.0, gt=0, description="First pause of the breaker, in seconds; it grows."
    )

    def server(self) -> QuotaServer | None:
        """The server that the block names, if it does.

        Raises:
            ConfigurationError: its URL does not read.
        """
        if self.location is None or not self.location.get_secret_value():
            return None
        return read_server(self.location, "`location` of the Quota block")

    def gate(self, place: Place, name: str, *, outage_limit_s: float | None = None) -> Gate:
        """The gate of the quota called `name`, with its state at `place` or where the block says.

        Raises:
            ConfigurationError: rates that contradict each other, or those in use by others.
            StateError: the state cannot be used; no permit is given then.
        """
        place = self.server() or place
        return open_gate(place, self._config(name), self._breaker(), outage_limit_s)

    def key_pool(
        self,
        place: Place,
        name: str,
        keys: Sequence[PoolKey],
        *,
        outage_limit_s: float | None = None,
    ) -> KeyPool:
        """As `gate`, of a source that gives each of these keys the rates.

        Raises:
            ConfigurationError, StateError: as `gate`, or a key that cannot be used beside others.
        """
        place = self.server() or place
        return open_key_pool(place, self._config(name), keys, self._breaker(), outage_limit_s)

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
