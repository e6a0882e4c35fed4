"""The SDK's session, with one login at a time and a clock that no time zone moves.

The SDK's own takes no lock, so ten threads log in at once; and it compares naive local times, so on
the night daylight saving ends a token of 60 minutes is held good for 120.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from looker_sdk.rtl import api_settings, auth_token, serialize, transport
from looker_sdk.rtl.auth_session import AuthSession

from headrace.errors import ConfigurationError
from headrace.exchange.exceptions import BadAnswer
from headrace.looker.client.connection import LookerConnection

#: A token is renewed this much before its end, or at a tenth of its life if that is less.
_MARGIN_S = 10.0


class Settings(api_settings.ApiSettings):
    """The SDK's settings from a connection of ours: no file and no variable is read."""

    def __init__(self, connection: LookerConnection) -> None:
        self._connection = connection
        super().__init__()

    def read_config(self) -> Any:
        """What the SDK asks for when it logs in."""
        return {
            "base_url": self._connection.base_url,
            "client_id": self._connection.client_id,
            "client_secret": self._connection.client_secret.get_secret_value(),
            "verify_ssl": str(self._connection.verify_ssl),
        }


class OneLogin(AuthSession):
    """A session that any number of threads share.

    Args:
        settings, transport: of the SDK.
        clock: seconds that never jump.
    """

    def __init__(
        self,
        settings: Settings,
        transport: transport.Transport,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(settings, transport, serialize.deserialize40, "4.0")
        self._clock = clock
        self._turn = threading.Lock()
        self._good_until = 0.0
        self._refused: ConfigurationError | None = None
        self.logins = 0

    @property
    def is_authenticated(self) -> bool:
        """Whether there is a token to log out with."""
        return bool(self.token.access_token)

    def discard(self, authorization: str) -> None:
        """The server does not believe this header: log in anew, unless somebody has done so."""
        with self._turn:
            if authorization == f"Bearer {self.token.access_token}":
                self.token = auth_token.AuthToken()

    def _get_token(
        self,
        transport_options: transport.TransportOptions,  # noqa: ARG002 - the SDK's signature
    ) -> auth_token.AuthToken:
        with self._turn:
            if self._refused is not None:
                # Asked again and again, Looker would lock the key.
                raise self._refused
            if not self.token.access_token or self._clock() >= self._good_until:
                self._renew()
            return self.token

    def _renew(self) -> None:
        began = self._clock()
        self.token = auth_token.AuthToken()
        try:
            # Options of their own: the SDK writes the form's content type into them.
            self._login({})
        except ConfigurationError as error:
            self._refused = error
            raise
        except serialize.DeserializeError as error:
            raise BadAnswer("the answer to the login is no token", status=200) from error
        self.logins += 1
        if not self.token.access_token:
            raise BadAnswer("the answer to the login has no token", status=200)
        lasts_s = float(self.token.expires_in or 0)
        self._good_until = began + lasts_s - min(_MARGIN_S, lasts_s / 10)
