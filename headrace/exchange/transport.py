"""One HTTP request within hard limits: connect, silence, and total time.

urllib3 pools the connections and knows HTTP; what it lacks is a limit on the whole request. A
server that drips a byte every two seconds never trips a read time-out, so a watchdog thread shuts
the socket of every request that is past its total time, and of all of them when the run is
stopped. The thread that reads then fails at once.
"""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import urllib3
from urllib3.util import parse_url

from headrace import __version__
from headrace.errors import ConfigurationError
from headrace.exchange.exceptions import ConnectionFailed, RequestTimeout
from headrace.stopping import StopEvent

USER_AGENT = f"headrace/{__version__}"
_WATCH_INTERVAL_S = 0.2


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


class Transport:
    """A pool of kept-alive connections to one host. Safe to use from many threads.

    Args:
        base_url: http or https URL of the API, with an optional path in front of its own paths.
        timeouts: limits of each request.
        max_connections: how many connections are kept; one per request in flight.
        stop: when it is set, requests in flight are broken off and new ones refused.

    Raises:
        ConfigurationError: if `base_url` is no http or https URL.
    """

    def __init__(
        self,
        base_url: str,
        *,
        timeouts: Timeouts | None = None,
        max_connections: int = 64,
        stop: StopEvent | None = None,
    ) -> None:
        self.base_url = checked_base_url(base_url)
        self.timeouts = timeouts or Timeouts()
        self._prefix = parse_url(self.base_url).path or ""
        self._stop = stop or StopEvent()
        self._watch = _Watch(self._stop)
        self._pool = urllib3.connection_from_url(
            self.base_url,
            maxsize=max_connections,
            block=False,
            retries=False,
            timeout=urllib3.Timeout(connect=self.timeouts.connect_s, read=self.timeouts.read_s),
            headers={"User-Agent": USER_AGENT, "Accept": "application/json"},
        )
        self._pool.ConnectionCls = _watched(self._pool.ConnectionCls, self._watch)

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Response:
        """`GET` the path (with its query), and read the whole body.

        Raises:
            RequestTimeout: one of the limits was reached.
            ConnectionFailed: no connection, or it broke before the answer was complete.
            Stopped: the stop event was set before or while waiting.
        """
        self._stop.check()
        started = time.monotonic()
        deadline = started + self.timeouts.total_s
        merged = {**self._pool.headers, **(headers or {})}
        with self._watch.flight(deadline) as flight:
            try:
                answer = self._pool.urlopen(
                    "GET", self._prefix + path, headers=merged, redirect=False, retries=False
                )
            except (urllib3.exceptions.HTTPError, OSError, http.client.HTTPException) as error:
                self._stop.check()
                raise self._named(error, flight) from error
        if flight.cut:
            # Without a Content-Length a shut socket looks like the end of the body.
            self._stop.check()
            raise RequestTimeout(f"no complete answer within {self.timeouts.total_s:g} s")
        return Response(answer.status, answer.headers, answer.data, time.monotonic() - started)

    def check_reachable(self) -> None:
        """Connect once without asking anything, which costs no permit.

        Raises:
            ConnectionFailed: nobody listens there, or the name is unknown.
        """
        host, port = self._pool.host, self._pool.port
        try:
            socket.create_connection((host, port), self.timeouts.connect_s).close()
        except OSError as error:
            raise ConnectionFailed(
                f"nobody answers at {self.base_url} ({error})",
                hint="Is the address right, and the network up?",
            ) from error

    def close(self) -> None:
        """Close the kept connections and end the watchdog."""
        self._pool.close()
        self._watch.close()

    def __enter__(self) -> Transport:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _named(self, error: Exception, flight: _Flight) -> ConnectionFailed:
        if flight.cut:
            return RequestTimeout(f"no complete answer within {self.timeouts.total_s:g} s")
        if isinstance(error, urllib3.exceptions.ConnectTimeoutError):
            return RequestTimeout(f"no connection within {self.timeouts.connect_s:g} s")
        if isinstance(error, urllib3.exceptions.ReadTimeoutError | TimeoutError):
            return RequestTimeout(f"the server sent nothing for {self.timeouts.read_s:g} s")
        if isinstance(error, urllib3.exceptions.NewConnectionError):
            return ConnectionFailed(f"nobody answers at {self.base_url} ({_reason(error)})")
        return ConnectionFailed(f"the connection broke ({_reason(error)})")


def checked_base_url(text: str) -> str:
    """The URL without a trailing slash.

    Raises:
        ConfigurationError: if it is no http or https URL with a host.
    """
    hint = "Give the API's address, for example https://api.exchange.coinbase.com"
    try:
        url = parse_url(text)
    except urllib3.exceptions.LocationParseError as error:
        raise ConfigurationError(f"base_url {text!r} is no URL", hint=hint) from error
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigurationError(f"base_url {text!r} is no http or https URL", hint=hint)
    if url.query or url.fragment or url.auth:
        raise ConfigurationError(
            "base_url must not hold credentials, a query or a fragment", hint=hint
        )
    return text.rstrip("/")


def _reason(error: Exception) -> str:
    """The innermost plain words of a nested connection error."""
    inner: BaseException = error
    while (cause := inner.__cause__ or inner.__context__) is not None:
        inner = cause
    return str(inner) or type(inner).__name__


@dataclass(slots=True, eq=False)
class _Flight:
    """One request in flight: its time limit, its connection, and whether we cut it."""

    deadline: float
    connection: http.client.HTTPConnection | None = None
    cut: bool = False


class _Watch:
    """Knows every request in flight, and shuts the sockets of those that are over time."""

    def __init__(self, stop: StopEvent) -> None:
        self._stop = stop
        self._lock = threading.Lock()
        self._flights: set[_Flight] = set()
        self._current = threading.local()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def flight(self, deadline: float) -> _Boarding:
        return _Boarding(self, _Flight(deadline))

    def board(self, flight: _Flight) -> None:
        self._current.flight = flight
        with self._lock:
            self._flights.add(flight)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="headrace-http-watch", daemon=True
                )
                self._thread.start()

    def land(self, flight: _Flight) -> None:
        self._current.flight = None
        with self._lock:
            self._flights.discard(flight)

    def carries(self, connection: http.client.HTTPConnection) -> None:
        """Told by a connection that it now carries this thread's request."""
        flight: _Flight | None = getattr(self._current, "flight", None)
        if flight is not None:
            flight.connection = connection

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(_WATCH_INTERVAL_S):
            now = time.monotonic()
            stopping = self._stop.is_set()
            with self._lock:
                over = [f for f in self._flights if stopping or now > f.deadline]
                for flight in over:
                    _cut(flight)


def _cut(flight: _Flight) -> None:
    sock = flight.connection.sock if flight.connection is not None else None
    if sock is None:
        return  # still resolving or connecting, which has a limit of its own
    flight.cut = True
    try:
        # Below any TLS object: the reader must fail now, a clean close is not wanted.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
    except OSError:
        return  # it ended by itself in the meantime


class _Boarding:
    """`with watch.flight(deadline) as flight:` registers a request for its duration."""

    def __init__(self, watch: _Watch, flight: _Flight) -> None:
        self._watch = watch
        self._flight = flight

    def __enter__(self) -> _Flight:
        self._watch.board(self._flight)
        return self._flight

    def __exit__(self, *_exc: object) -> None:
        self._watch.land(self._flight)


def _watched(base: Any, watch: _Watch) -> Any:
    """The pool's connection class, telling the watch whose request it carries."""

    class Watched(base):  # type: ignore[misc]
        def request(self, *args: Any, **kwargs: Any) -> None:
            watch.carries(self)
            super().request(*args, **kwargs)

    return Watched
