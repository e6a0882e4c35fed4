"""What the rest of the program asks a Looker for: bytes of pages and items."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

from looker_sdk.rtl import serialize, transport
from looker_sdk.sdk.api40.methods import Looker40SDK

from headrace.errors import HeadraceError
from headrace.exchange.exceptions import BadAnswer
from headrace.exchange.retrying import RetryPolicy
from headrace.exchange.transport import Transport
from headrace.looker.client.connection import LookerConnection
from headrace.looker.client.retrying import LookerRetryPolicy
from headrace.looker.client.session import OneLogin, Settings
from headrace.looker.client.transport import Call, SdkTransport
from headrace.looker.content import Listing, content_of
from headrace.metrics.client_stats import ClientStats
from headrace.quota import Gate
from headrace.stopping import StopEvent

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
    session = OneLogin(Settings(connection), sdk_transport)
    sdk_transport.discard = session.discard
    sdk = Looker40SDK(session, serialize.deserialize40, serialize.serialize40, sdk_transport, "4.0")
    return LookerClient(sdk, session, sdk_transport, http)


class LookerClient:
    """A Looker, asked through its SDK. Made by `open_client`; safe for threads.

    Attributes:
        sdk: the SDK, for what has no method here; its methods return bytes.
    """

    def __init__(
        self, sdk: Looker40SDK, session: OneLogin, sdk_transport: SdkTransport, http: Transport
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
            ConnectionFailed: nobody listens there.
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
        """The body of one item.

        Raises: see `SdkTransport.request`.
        """
        call = call or Call(about=f"{type_} {item_id}", type=type_)
        return self.ask(
            content_of(type_).item_path(item_id), {"fields": fields} if fields else {}, call
        )

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _bytes(found: object, call: Call) -> bytes:
    if not isinstance(found, bytes):
        raise BadAnswer("the SDK returned no body", product=call.about, status=200)
    return found
