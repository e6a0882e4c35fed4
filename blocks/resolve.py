"""Options that are either a value or the name of a saved block: `block:NAME`."""

from __future__ import annotations

from pydantic import SecretStr

from blocks.exchange import Exchange
from blocks.keys import ApiKeys
from blocks.lake import Lake
from blocks.loading import loaded
from blocks.looker import Looker
from blocks.quota import Quota
from blocks.signing import BlockKey
from blocks.sot import SotStoreBlock
from headrace.errors import ConfigurationError
from headrace.evidence.key_files import KeyFile
from headrace.evidence.keys import KeyPlace
from headrace.looker.client import LookerConnection, connection_from_environment
from headrace.looker.client.connection import PREFIX
from headrace.pull.request import BLOCK_PREFIX
from headrace.quota import PoolKey, parse_rates
from headrace.quota.location import Place
from headrace.settings import Settings, load_settings

_LOOKER_COOLDOWN_S = 30.0


def exchange_of(option: str) -> Exchange:
    """The exchange at a URL, or a saved Exchange block."""
    name = block_name(option)
    return loaded(Exchange, name) if name else Exchange(base_url=option)


def lake_of(option: str) -> Lake:
    """The lake at a location, or a saved Lake block."""
    name = block_name(option)
    return loaded(Lake, name) if name else Lake(location=option)


def looker_of(option: str, prefix: str = PREFIX) -> LookerConnection:
    """The connection of a saved Looker block, or of the environment, with another address if given.

    Args:
        option: `block:NAME`, an address, or nothing.
        prefix: of the variables of the environment.

    Raises:
        ConfigurationError: there is no such block, or something is missing.
    """
    name = block_name(option)
    if name:
        return loaded(Looker, name).connection()
    return connection_from_environment(option, prefix)


def keys_of(option: str) -> list[PoolKey]:
    """The keys of a saved API keys block, or of the environment; none if it has none.

    Raises:
        ConfigurationError: there is no such block.
    """
    name = block_name(option)
    if name:
        return loaded(ApiKeys, name).pool_keys()
    texts = load_settings().api_keys.get_secret_value().split(",")
    keys = [SecretStr(text.strip()) for text in texts if text.strip()]
    return ApiKeys(keys=keys).pool_keys() if keys else []


def quota_of(option: str, *, breaker_cooldown_s: float) -> Quota:
    """The quota of some rates, or a saved Quota block (which says its own cooldown)."""
    name = block_name(option)
    if name:
        return loaded(Quota, name)
    return Quota(rates=option, breaker_cooldown_s=breaker_cooldown_s)


def quota_place(settings: Settings) -> Place:
    """Where quotas live: as the settings say, or the Quota block that they name.

    Raises:
        ConfigurationError: there is no such block, it says no location, or a URL does not read.
    """
    name = block_name(settings.quota.get_secret_value())
    if not name:
        return settings.quota_place
    server = loaded(Quota, name).server()
    if server is None:
        raise ConfigurationError(
            f"the Quota block {name!r} of HEADRACE_QUOTA has no location",
            hint="Give it one: redis://HOST:6379/0 or postgres://USER@HOST/DATABASE",
        )
    return server


def sot_store_of(option: str) -> SotStoreBlock:
    """The log at a location, or a saved SOT store block."""
    name = block_name(option)
    return loaded(SotStoreBlock, name) if name else SotStoreBlock(location=option)


def signing_key_of(option: str) -> KeyPlace:
    """The signing key of a block or a file, or the configured one; nothing is read yet."""
    location = option or load_settings().signing_key_location
    name = block_name(location)
    return BlockKey(name) if name else KeyFile(location)


def looker_quota_of(option: str, *, breaker_cooldown_s: float) -> Quota:
    """The quota of a Looker: as `quota_of`, with two choices of its own where no block makes them.

    What a window allows may go out at once. The limit is the operator's own, so nothing is gained
    by spreading it, and most extractions end within a window: ninety requests at 10/s and 100/m
    take nine seconds then, not fifty. And the breaker's first pause is half a minute at most.
    """
    if block_name(option):
        return quota_of(option, breaker_cooldown_s=breaker_cooldown_s)
    return Quota(
        rates=option,
        burst=max((rate.limit for rate in parse_rates(option)), default=None),
        breaker_cooldown_s=min(breaker_cooldown_s, _LOOKER_COOLDOWN_S),
    )


def block_name(option: str) -> str:
    """The name behind `block:`, or "" if the option is a value of its own."""
    return option.removeprefix(BLOCK_PREFIX) if option.startswith(BLOCK_PREFIX) else ""
