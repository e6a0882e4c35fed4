"""One HTTP request to an API within hard limits: connect, silence, and total time.

`headrace.wire` speaks HTTP; here its failures get the names that the client decides by. Redirects
are not followed: an API does not move without saying so in its documentation.
"""

from __future__ import annotations

import base64
import errno
import os
import re
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import urllib3
from urllib3.util import parse_url

from headrace import __version__
from headrace.errors import ConfigurationError
from headrace.stopping import StopEvent
from headrace.wire import (
    Flight,
    Limits,
    Origin,
    Pool,
    ProxyRefused,
    Silent,
    Unreachable,
    Watch,
    WireError,
    proxy_for,
    tls_context,
)
from headrace.wire.exceptions import (
    ConnectionFailed,
    LocalFailure,
    ProxyRefusal,
    RequestError,
    RequestTimeout,
)
from headrace.wire.message import SWITCHING_PROTOCOLS

USER_AGENT = f"headrace/{__version__}"
#: What may stand in a request's path and headers: no space or line end can slip in.
_TARGET = re.compile(r"/[\x21-\x7e]*")
_VISIBLE = re.compile(r"[\x21-\x7e]*")
#: A name, an address or an IPv6 address in brackets, and a port. No zone: it has no place in HTTP.
_LONGEST_HOST = 128
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_][A-Za-z0-9_.-]*)(:[0-9]+)?")
_VALUE = re.compile(r"[\x20-\x7e]*")
#: What this machine lacks or forbids where a connection fails with one of these.
_OURS = frozenset(
    {
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOBUFS,
        errno.EADDRNOTAVAIL,
        errno.EACCES,
        errno.EPERM,
    }
)
#: Methods of which a server wants to know the length of the body, also of none (RFC 9110, 8.6).
_WITH_A_BODY = ("POST", "PUT", "PATCH")
_PROXY_WANTS_A_LOGIN = 407


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to connect, to wait for the next byte, and for the whole request."""

    connect_s: float = 10.0
    read_s: float = 30.0
    total_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Response:
    """A complete answer. Header names are matched without regard to case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    elapsed_s: float


#: Makes a request: method, path with its query, headers, body.
Compose = Callable[[], tuple[str, str, Mapping[str, str], bytes | None]]


class Transport:
    """A pool of kept-alive connections to one host. Safe to use from many threads.

    Args:
        base_url: http or https URL of the API, with an optional path in front of its own paths.
        timeouts: limits of each request.
        max_connections: how many connections are kept; one per request in flight.
        verify_ssl: whether the server's certificate must be good.
        gzip: whether answers may come packed, for servers whose answers are large and far away.
        stop: when it is set, requests in flight are broken off and new ones refused.

    Raises:
        ConfigurationError: if `base_url` is no http or https URL, or a proxy or certificates that
            the environment names cannot be used.
    """

    def __init__(
        self,
        base_url: str,
        *,
        timeouts: Timeouts | None = None,
        max_connections: int = 64,
        verify_ssl: bool = True,
        gzip: bool = False,
        stop: StopEvent | None = None,
    ) -> None:
        self.base_url = check_base_url(base_url)
        self.timeouts = timeouts or Timeouts()
        self.origin = Origin.of(self.base_url)
        self._prefix = urlsplit(self.base_url).path
        self._stop = stop or StopEvent()
        self._watch = Watch(self._stop.is_set)
        self._proxy = proxy_for(self.origin)
        secure = self.origin.scheme == "https"
        self._pool = Pool(
            self.origin,
            Limits(self.timeouts.connect_s, self.timeouts.read_s),
            keep=max_connections,
            tls=tls_context(verify=verify_ssl) if secure else None,
            proxy=self._proxy,
        )
        self._fixed = (
            f"Host: {self.origin.host_header}\r\nUser-Agent: {USER_AGENT}\r\n"
            f"Accept: application/json\r\nAccept-Encoding: {'gzip' if gzip else 'identity'}\r\n"
        )

    @property
    def connections(self) -> int:
        """How many connections were opened so far."""
        return self._pool.opened

    def get(
        self, path: str, headers: Mapping[str, str] | None = None, *, fresh: bool = False
    ) -> Response:
        """`GET` the path (with its query), and read the whole body. See `send`."""
        return self.send("GET", path, headers, fresh=fresh)

    def send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        *,
        fresh: bool = False,
    ) -> Response:
        """Send one request and read the whole answer.

        Args:
            method: as in `GET`.
            path: with its query.
            headers: beside `Host`, `User-Agent`, `Accept`, `Accept-Encoding`, `Content-Length`.
            body: None for a request without one.
            fresh: over a new connection, with which all idle ones are closed. For what follows a
                failure, and for a probe of the breaker.

        Raises:
            RequestTimeout: one of the limits was reached.
            ConnectionFailed: no connection, or it broke before the answer was complete.
            ProxyRefusal: the proxy did not let the request through.
            LocalFailure: this machine could not make a connection.
            Stopped: the stop event was set before or while waiting.
            ValueError: the path or a header holds what cannot be sent.
        """
        self._stop.check()
        request = self._request(method, path, headers or {}, body)
        return self._exchange(lambda: request, fresh=fresh)

    def send_late(self, compose: Compose, *, fresh: bool = False) -> Response:
        """As `send`, but the request is made once there is a connection, right before it leaves.

        Args:
            compose: returns method, path, headers and body. It may wait, and what it raises is
                raised here: nothing was sent then.
            fresh: as in `send`.
        """
        self._stop.check()
        return self._exchange(lambda: self._request(*compose()), fresh=fresh)

    def _exchange(self, request: Callable[[], bytes], *, fresh: bool) -> Response:
        started = time.monotonic()
        flight = self._watch.board(started + self.timeouts.total_s)

        def leave() -> bytes:
            nonlocal started
            content = request()
            started = time.monotonic()
            flight.deadline = started + self.timeouts.total_s
            return content

        try:
            reply = self._pool.ask(leave, flight, fresh=fresh)
        except WireError as error:
            self._stop.check()
            raise self._named(error, flight) from error
        finally:
            self._watch.land(flight)
        if flight.cut:
            # Without a Content-Length a shut socket looks like the end of the body.
            self._stop.check()
            raise self._too_long()
        if reply.status == _PROXY_WANTS_A_LOGIN and self._proxy:
            raise self._refused(_PROXY_WANTS_A_LOGIN)
        return Response(reply.status, reply.headers, reply.body, time.monotonic() - started)

    def check_reachable(self) -> None:
        """Connect without asking anything, which costs no permit.

        Raises:
            ConnectionFailed: nothing listens there, the name is unknown, or TLS failed.
            ProxyRefusal: the proxy does not open the way.
        """
        try:
            self._pool.connect()
        except WireError as error:
            raise self._named(error, Flight()) from error

    def close(self) -> None:
        """Close the kept connections and end the watchdog."""
        self._pool.close()
        self._watch.close()

    def __enter__(self) -> Transport:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> bytes:
        target = self._prefix + path
        if not _TARGET.fullmatch(target):
            raise ValueError(f"not a path that can be asked for: {target!r}")
        extra = ""
        for name, value in headers.items():
            if not _VALUE.fullmatch(value):
                raise ValueError(f"the header {name} cannot be sent")
            extra += f"{name}: {value}\r\n"
        if body is not None or method in _WITH_A_BODY:
            extra += f"Content-Length: {len(body or b'')}\r\n"
        head = f"{method} {target} HTTP/1.1\r\n{self._fixed}{extra}\r\n".encode("ascii")
        return head + body if body else head

    def _too_long(self) -> RequestTimeout:
        return RequestTimeout(f"no complete answer within {self.timeouts.total_s:g} s")

    def _named(self, error: WireError, flight: Flight) -> RequestError:
        if isinstance(error, ProxyRefused):
            return self._refused(error.status)
        if isinstance(error, Unreachable) and _is_ours(error.__cause__):
            return LocalFailure(f"this machine could not make a connection ({error})")
        named = self._too_long() if flight.cut else self._failed(error)
        named.stale = error.stale
        named.unreachable = isinstance(error, Unreachable)
        named.refuses_us = isinstance(error.__cause__, ssl.SSLCertVerificationError)
        return named

    def _failed(self, error: WireError) -> ConnectionFailed:
        through = f" through {self._proxy}" if self._proxy else ""
        if isinstance(error, Silent):
            return RequestTimeout(
                f"the server sent nothing for {self.timeouts.read_s:g} s{through}"
            )
        if not isinstance(error, Unreachable):
            return ConnectionFailed(f"the connection broke ({error}){through}")
        if error.insecure:
            return ConnectionFailed(
                f"no secure connection with {self.base_url}{through} ({error})",
                hint="If a company's own authority signs for it, name its certificates in "
                "SSL_CERT_FILE or REQUESTS_CA_BUNDLE",
            )
        if error.timed_out:
            return RequestTimeout(f"no connection within {self.timeouts.connect_s:g} s{through}")
        if self._proxy:
            return ConnectionFailed(
                f"{self._proxy} does not answer ({error}), so {self.base_url} cannot be asked",
                hint=f"Correct {self._proxy.variable}, or name the host in NO_PROXY",
            )
        return ConnectionFailed(
            f"no answer from {self.base_url} ({error})",
            hint="Is the address right, and the network up?",
        )

    def _refused(self, status: int) -> ProxyRefusal | ConnectionFailed:
        """What an answer of the proxy's own means."""
        assert self._proxy is not None, "only a proxy refuses so"
        variable = self._proxy.variable
        if status >= 500:
            return ConnectionFailed(f"{self._proxy} cannot reach {self.base_url} ({status})")
        if status == _PROXY_WANTS_A_LOGIN:
            return ProxyRefusal(
                f"{self._proxy} wants another user and password ({status})",
                status=status,
                hint=f"Set {variable} to http://user:password@host:port",
            )
        return ProxyRefusal(
            f"{self._proxy} refuses connections to {self.base_url} ({status})",
            status=status,
            hint=f"Have the proxy allow it, correct {variable}, or name the host in NO_PROXY",
        )


def _is_ours(cause: BaseException | None) -> bool:
    # The number of an error of TLS is another thing.
    return (
        isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError) and cause.errno in _OURS
    )


def check_base_url(text: str) -> str:
    """The URL in its one spelling: host in small letters, no default port, no trailing slash.

    One server is one spelling, because a quota is named after it (`quota_name`).

    Raises:
        ConfigurationError: if it is no http or https URL with a host. The message does not repeat
            a URL that may hold a password.
    """
    hint = "Give the API's address, for example https://api.exchange.coinbase.com"
    if "@" in text:
        raise ConfigurationError("base_url must not hold credentials", hint=hint)
    try:
        parse_url(text)
        origin = Origin.of(text)
    except (urllib3.exceptions.LocationParseError, ValueError) as error:
        raise ConfigurationError(
            f"base_url {text!r} is no http or https URL with a host", hint=hint
        ) from error
    if "?" in text or "#" in text:
        raise ConfigurationError("base_url must not hold a query or a fragment", hint=hint)
    path = urlsplit(text).path.rstrip("/")
    host = origin.host_header
    if not _VISIBLE.fullmatch(path) or not _HOST.fullmatch(host) or len(host) > _LONGEST_HOST:
        raise ConfigurationError(
            f"base_url {text!r} is too long or holds what cannot stand there", hint=hint
        )
    return f"{origin.scheme}://{origin.host_header}{path}"


def websocket_refusal(
    url: str, headers: Mapping[str, str], *, subprotocol: str, timeout_s: float = 3.0
) -> str:
    """Why a server takes no WebSockets, in a few words; "" if it does, or if that is not known.

    Sends the handshake (RFC 6455, section 4) and nothing after it. It is not known where nothing
    listens, and where a proxy stands between.

    Args:
        url: http or https.
        headers: sent with the handshake, such as a login.
        subprotocol: that the server is asked for.
        timeout_s: seconds for the connection, and for the answer.
    """
    parts = urlsplit(url)
    base = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    if proxy_for(Origin.of(base)):
        return ""
    handshake = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        "Sec-WebSocket-Protocol": subprotocol,
    }
    try:
        with Transport(base, timeouts=Timeouts(timeout_s, timeout_s, 2 * timeout_s)) as transport:
            status = transport.get(parts.path, {**headers, **handshake}).status
    except RequestTimeout as error:
        return "" if error.unreachable else f"no answer to a WebSocket within {timeout_s:g} s"
    except ConnectionFailed as error:
        return "" if error.unreachable else "it closed the connection when asked for a WebSocket"
    except LocalFailure:
        return ""
    if status == SWITCHING_PROTOCOLS:
        return ""
    return f"it answers {status} when asked for a WebSocket"


def quota_name(base_url: str) -> str:
    """What a server's quota is called on this machine: its host, and its port if it is special.

    Raises:
        ConfigurationError: as `check_base_url`.
    """
    return Origin.of(check_base_url(base_url)).host_header
