"""How to reach an exchange: its address, and the API key where requests are signed."""

from __future__ import annotations

from prefect.blocks.core import Block
from pydantic import BaseModel, Field, SecretStr

from headrace.errors import ConfigurationError
from headrace.exchange.client import ExchangeClient
from headrace.exchange.signing import Credentials
from headrace.exchange.source import Source
from headrace.quota import Gate, KeyPool
from headrace.stopping import StopEvent
from headrace.wire.transport import Timeouts, Transport


class ExchangeKey(BaseModel):
    """An API key of an exchange."""

    key: SecretStr = Field(description="API key.")
    secret: SecretStr = Field(description="Its secret, base64 text.")
    passphrase: SecretStr = Field(description="Its passphrase.")


class Exchange(Block):
    """A Coinbase-Exchange API. Without a key, requests are public (10 a second per address).

    With several keys, requests are spread over them, and the rate of a run is that of each key.
    """

    _block_type_name = "Headrace Exchange"
    _block_type_slug = "headrace-exchange"
    _description = "Address, API key and time limits of a Coinbase-Exchange API."
    _code_example = (
        "```python\nfrom blocks import Exchange\n\n"
        'Exchange(key="...", secret="...", passphrase="...").save("mine")\n'
        "```\nthen `headrace backfill BTC-USD --base-url block:mine`"
    )

    base_url: str = Field("https://api.exchange.coinbase.com", description="Address of the API.")
    key: SecretStr | None = Field(None, description="API key; empty for public access.")
    secret: SecretStr | None = Field(None, description="Its secret, base64 text.")
    passphrase: SecretStr | None = Field(None, description="Its passphrase.")
    more_keys: list[ExchangeKey] = Field(
        [], description="More keys, over which requests are spread beside the first."
    )
    connect_timeout_s: float = Field(10.0, gt=0, description="Seconds to connect.")
    read_timeout_s: float = Field(30.0, gt=0, description="Seconds of silence allowed.")
    total_timeout_s: float = Field(60.0, gt=0, description="Seconds for a whole request.")

    def credentials(self) -> list[Credentials]:
        """The keys to sign with; none for public access.

        Raises:
            ConfigurationError: if only some of key, secret and passphrase are given, or one of them
                cannot be used.
        """
        parts = [self.key, self.secret, self.passphrase]
        given = [part.get_secret_value() for part in parts if part is not None]
        if not any(given):
            if self.more_keys:
                raise ConfigurationError(
                    "the Exchange block has more_keys without a first key",
                    hint="Fill in key, secret and passphrase, or empty more_keys",
                )
            return []
        if len(given) < len(parts) or not all(given):
            raise ConfigurationError(
                "signed requests need key, secret and passphrase; one of them is missing",
                hint="Complete the Exchange block, or empty all three for public access",
            )
        more = [
            Credentials(
                *(part.get_secret_value() for part in (own.key, own.secret, own.passphrase))
            )
            for own in self.more_keys
        ]
        return [Credentials(*given), *more]

    def transport(self, *, max_connections: int, stop: StopEvent) -> Transport:
        """A pool of connections to the API."""
        return Transport(
            self.base_url,
            timeouts=Timeouts(self.connect_timeout_s, self.read_timeout_s, self.total_timeout_s),
            max_connections=max_connections,
            stop=stop,
        )

    def open_source(self, gate: Gate | KeyPool, *, max_connections: int, stop: StopEvent) -> Source:
        """The client of the API, which a pull knows as a `Source`.

        Raises:
            ConnectionFailed: no server listens at the address.
        """
        transport = self.transport(max_connections=max_connections, stop=stop)
        transport.check_reachable()
        return ExchangeClient(transport, gate, credentials=self.credentials(), stop=stop)
