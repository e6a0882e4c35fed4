"""What the rest of the program asks a Looker for: bytes of pages and items.

The SDK's own session takes no lock, so ten threads log in at once; and it compares naive local
times, so on the night daylight saving ends a token of 60 minutes is held good for 120. Ours allows
one login at a time, and has a clock that no time zone moves.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self
from urllib.parse import urlencode

from looker_sdk.rtl import api_settings, auth_token, serialize, transport
from looker_sdk.rtl.auth_session import AuthSession
from looker_sdk.sdk.api40.methods import Looker40SDK

from headrace.errors import ConfigurationError, HeadraceError
from headrace.looker.client.connection import LookerConnection
from headrace.looker.client.transport import Call, SdkTransport
from headrace.looker.combined_bodies import put_together
from headrace.looker.content_types import Listing, content_of
from headrace.looker.exceptions import AppError
from headrace.metrics.requests import ClientStats
from headrace.quota import Gate
from headrace.stopping import StopEvent
from headrace.wire.client import RetryPolicy
from headrace.wire.exceptions import BadAnswer, RequestTimeout, TransientError
from headrace.wire.transport import Transport

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


class LookerSession(AuthSession):
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
        self._lock = threading.Lock()
        self._good_until = 0.0
        self._refused: ConfigurationError | None = None
        self.logins = 0

    @property
    def is_authenticated(self) -> bool:
        """Whether there is a token to log out with."""
        return bool(self.token.access_token)

    def discard(self, authorization: str) -> None:
        """The server refuses this header: log in again, unless another thread has done so."""
        with self._lock:
            if authorization == f"Bearer {self.token.access_token}":
                self.token = auth_token.AuthToken()

    def _get_token(
        self,
        transport_options: transport.TransportOptions,  # noqa: ARG002 - the SDK's signature
    ) -> auth_token.AuthToken:
        with self._lock:
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


_log = logging.getLogger(__name__)

#: A token ends by itself: to give it back is not worth waiting for an outage to end.
_LOGOUT_S = 2.0
_VERBS = {verb.name: verb for verb in transport.HttpMethod}


def open_client(
    connection: LookerConnection,
    gate: Gate,
    *,
    workers: int = 8,
    policy: RetryPolicy | None = None,
    stop: StopEvent | None = None,
) -> LookerClient:
    """A client; nothing is sent yet.

    Args:
        connection: where, and who asks.
        gate: the quota of this Looker and its breaker.
        workers: requests in flight at most.
        policy: attempts and pauses.
        stop: ends waits and requests.
    """
    stop = stop or StopEvent()
    http = Transport(
        connection.base_url,
        timeouts=connection.timeouts,
        max_connections=workers,
        verify_ssl=connection.verify_ssl,
        gzip=True,
        stop=stop,
    )
    sdk_transport = SdkTransport(
        http, gate, policy=policy or LookerRetryPolicy(), in_flight=workers, stop=stop
    )
    session = LookerSession(Settings(connection), sdk_transport)
    sdk_transport.discard = session.discard
    sdk = Looker40SDK(session, serialize.deserialize40, serialize.serialize40, sdk_transport, "4.0")
    return LookerClient(sdk, session, sdk_transport, http)


class LookerClient:
    """A Looker, asked through its SDK. Made by `open_client`; safe for threads.

    Attributes:
        sdk: the SDK, for what has no method here; its methods return bytes.
    """

    def __init__(
        self, sdk: Looker40SDK, session: LookerSession, sdk_transport: SdkTransport, http: Transport
    ) -> None:
        self.sdk = sdk
        self._session = session
        self._transport = sdk_transport
        self._http = http

    @property
    def source(self) -> str:
        """The address, as recorded with what was fetched from it."""
        return self._http.base_url

    @property
    def stats(self) -> ClientStats:
        """What was sent and answered so far, logins included."""
        return self._transport.stats

    @property
    def logins(self) -> int:
        """How many tokens were asked for and given."""
        return self._session.logins

    def check_reachable(self) -> None:
        """Connect without asking anything.

        Raises:
            ConnectionFailed: nothing listens there.
        """
        self._http.check_reachable()

    def login(self) -> None:
        """Log in now, if that has not happened yet.

        Raises:
            LoginRefused: the credentials are wrong.
            RetriesExhausted, OutageError, Stopped: as for any request.
        """
        self._session.authenticate({})

    def page(
        self,
        listing: Listing,
        *,
        start: int = 0,
        size: int | None = None,
        fields: str = "",
        params: Mapping[str, str] | None = None,
        call: Call | None = None,
    ) -> bytes:
        """One page of a listing, or all of one that has no pages.

        Args:
            listing: which.
            start, size: offset and limit, where the listing takes them.
            fields: only these fields of each element.
            params: more of the query, such as a folder to narrow it to.

        Raises: see `SdkTransport.request`.
        """
        query: dict[str, str] = {**listing.params, **(params or {})}
        if listing.paged:
            query |= {"limit": str(size), "offset": str(start)}
            if listing.sorts:
                query["sorts"] = listing.sorts
        if fields:
            query["fields"] = fields
        return self.ask(listing.path, query, call)

    def item(
        self, type_: str, item_id: str, *, fields: str = "", call: Call | None = None
    ) -> bytes:
        """The body of one item; of one that several answers make up, all of it.

        Raises: see `SdkTransport.request`.
        """
        call = call or Call(about=f"{type_} {item_id}", type=type_)
        content = content_of(type_)
        if content.parts:
            return put_together(content, item_id, lambda path, query: self.ask(path, query, call))
        query = {"fields": fields} if fields else content.params
        return self.ask(content.item_path(item_id), query, call)

    def ask(
        self, path: str, query: Mapping[str, str] | None = None, call: Call | None = None
    ) -> bytes:
        """`GET` a path below /api/4.0.

        Raises: see `SdkTransport.request`.
        """
        call = call or Call(about=path)
        params: Any = dict(query) if query else None
        options: Any = {"call": call}
        found = self.sdk.get(path, bytes, query_params=params, transport_options=options)
        return _bytes(found, call)

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        query: Mapping[str, str] | None = None,
        call: Call | None = None,
    ) -> bytes:
        """`POST`, `PUT`, `PATCH` or `DELETE` a path below /api/4.0; the body goes out as it is.

        A POST is not repeated after a failure that leaves open whether it was carried out: then
        `RetriesExhausted` says so after one attempt.

        Raises: see `SdkTransport.request`.
        """
        call = call or Call(about=f"{method} {path}")
        if method == "POST":
            call = replace(call, repeatable=False)
        answer = self._transport.request(
            _VERBS[method],
            self.sdk.api_path + path.lstrip("/") + (f"?{urlencode(query)}" if query else ""),
            body=body,
            authenticator=self._session.authenticate,
            transport_options={"call": call},
        )
        return _bytes(answer.value, call)

    def close(self) -> None:
        """Log out, as far as that is possible, and close the connections."""
        try:
            if self._session.is_authenticated and not self._transport.stopping:
                options: Any = {
                    "call": Call("the logout", "logout", repeatable=False, patience_s=_LOGOUT_S)
                }
                self._session.logout(transport_options=options)
        except HeadraceError as error:
            # A token that was not given back ends by its time.
            _log.info("not logged out: %s", error)
        finally:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()


def _bytes(found: object, call: Call) -> bytes:
    if not isinstance(found, bytes):
        raise BadAnswer("the SDK returned no body", product=call.about, status=200)
    return found


@dataclass(frozen=True, slots=True)
class LookerRetryPolicy(RetryPolicy):
    """Attempts per kind of failure.

    A time-out of minutes is seldom mended by another one, and an error that Looker's own code
    raises about one item mostly comes again.
    """

    failed_attempts: int = 4
    app_error_attempts: int = 3
    timeout_attempts: int = 2

    def allowed(self, error: TransientError) -> int:
        """How many failures of this kind one request may see in all."""
        if isinstance(error, AppError):
            return self.app_error_attempts
        if isinstance(error, RequestTimeout):
            return self.timeout_attempts
        # Not super(): slots give the class another cell than the one it was compiled in.
        return RetryPolicy.allowed(self, error)
