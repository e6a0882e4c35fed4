"""How to reach a Looker: address, credentials, time limits."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace

from pydantic import SecretStr

from headrace.errors import ConfigurationError
from headrace.looker.exceptions import NoCredentials
from headrace.wire import problem_of_credential
from headrace.wire.transport import Timeouts, check_base_url

#: Looker answers slowly by nature: a dashboard of many tiles may take two minutes.
DEFAULT_TIMEOUTS = Timeouts(connect_s=10.0, read_s=180.0, total_s=300.0)

_TRUE = ("yes", "y", "true", "t", "1", "on")
_FALSE = ("no", "n", "false", "f", "0", "off")


@dataclass(frozen=True, slots=True)
class LookerConnection:
    """Where a Looker is and who asks.

    Args:
        base_url: such as https://company.looker.com, with the port of the API if it has one.
        client_id, client_secret: an API key of the instance.
        verify_ssl: whether its certificate must be good.
        timeouts: of each request.

    Raises:
        ConfigurationError: `base_url` is no http or https URL, or a key cannot be one.
    """

    base_url: str
    client_id: str
    client_secret: SecretStr = field(repr=False)
    verify_ssl: bool = True
    timeouts: Timeouts = DEFAULT_TIMEOUTS

    def __post_init__(self) -> None:
        object.__setattr__(self, "base_url", check_looker_url(self.base_url))
        if not self.client_id:
            raise NoCredentials("the client id")
        if not self.client_secret.get_secret_value():
            raise NoCredentials("the client secret")
        keys = {"id": self.client_id, "secret": self.client_secret.get_secret_value()}
        for name, key in keys.items():
            if problem := problem_of_credential(key):
                raise ConfigurationError(
                    f"the client {name} {problem}", hint="Copy it from Looker once more"
                )

    def within(self, total_s: float) -> LookerConnection:
        """The same, with requests that last so long at most, silence included; 0 for no change."""
        if not total_s:
            return self
        connect_s = min(self.timeouts.connect_s, total_s)
        return replace(self, timeouts=Timeouts(connect_s, total_s, total_s))


def check_looker_url(text: str) -> str:
    """The URL without a trailing slash.

    Raises:
        ConfigurationError: it is no http or https URL.
    """
    try:
        return check_base_url(text)
    except ConfigurationError as error:
        hint = "Give the address of the instance, for example https://company.looker.com:19999"
        raise ConfigurationError(error.message, hint=hint) from error


#: The SDK's own variables, and those of the Looker that is promoted to.
PREFIX, TARGET_PREFIX = "LOOKERSDK_", "LOOKERSDK_TARGET_"
_OPTIONS = {PREFIX: "--base-url", TARGET_PREFIX: "--to"}


def connection_from_environment(base_url: str = "", prefix: str = PREFIX) -> LookerConnection:
    """The connection that the SDK's own variables describe.

    Args:
        base_url: instead of `LOOKERSDK_BASE_URL`.
        prefix: of the variables.

    Raises:
        NoCredentials: naming what is missing.
        ConfigurationError: something cannot be used.
    """
    return LookerConnection(
        base_url=base_url or _given("BASE_URL", prefix),
        client_id=_given("CLIENT_ID", prefix),
        client_secret=SecretStr(_given("CLIENT_SECRET", prefix)),
        verify_ssl=_boolean(f"{prefix}VERIFY_SSL"),
        timeouts=_timeouts(f"{prefix}TIMEOUT"),
    )


def _given(name: str, prefix: str) -> str:
    # The SDK, too, takes quotes around a value as not meant.
    text = os.environ.get(f"{prefix}{name}", "").strip().strip("\"'")
    if not text:
        raise NoCredentials(f"{prefix}{name}", prefix, _OPTIONS[prefix])
    return text


def _boolean(name: str) -> bool:
    text = os.environ.get(name, "").strip().lower()
    if text and text not in (*_TRUE, *_FALSE):
        raise ConfigurationError(f"{name}={text!r} is neither true nor false")
    return text not in _FALSE


def _timeouts(name: str) -> Timeouts:
    text = os.environ.get(name, "").strip()
    if not text:
        return DEFAULT_TIMEOUTS
    try:
        total_s = float(text)
    except ValueError:
        total_s = 0.0
    if not 0 < total_s < float("inf"):
        raise ConfigurationError(f"{name}={text!r} is no number of seconds")
    return Timeouts(min(DEFAULT_TIMEOUTS.connect_s, total_s), total_s, total_s)
