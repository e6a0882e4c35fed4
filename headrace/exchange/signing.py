"""Signed requests, as the exchange's documentation describes them (CB-ACCESS-* headers)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.errors import ConfigurationError
from headrace.wire import problem_of_credential

_HINT = "Copy it from the exchange once more, into the Exchange block"


@dataclass(frozen=True)
class Credentials:
    """An API key; the secret is base64 text. Neither secret nor passphrase shows in a repr.

    Raises:
        ConfigurationError: naming the field that cannot be used.
    """

    key: str
    secret: str = field(repr=False)
    passphrase: str = field(repr=False)

    def __post_init__(self) -> None:
        for name in ("key", "passphrase"):
            if problem := problem_of_credential(getattr(self, name)):
                raise ConfigurationError(f"the API {name} {problem}", hint=_HINT)
        try:
            base64.b64decode(self.secret, validate=True)
        except ValueError as error:
            raise ConfigurationError("the API secret is not base64 text", hint=_HINT) from error


def sign(
    credentials: Credentials,
    method: str,
    path: str,
    body: str = "",
    *,
    clock: Callable[[], float] = time.time,
) -> dict[str, str]:
    """The headers that authenticate one request.

    The signature covers time, method, path with its query, and body, so it is made per attempt.
    """
    timestamp = f"{clock():.3f}"
    message = f"{timestamp}{method}{path}{body}".encode()
    digest = hmac.new(base64.b64decode(credentials.secret), message, hashlib.sha256).digest()
    return {
        "CB-ACCESS-KEY": credentials.key,
        "CB-ACCESS-SIGN": base64.b64encode(digest).decode(),
        "CB-ACCESS-TIMESTAMP": timestamp,
        "CB-ACCESS-PASSPHRASE": credentials.passphrase,
    }
