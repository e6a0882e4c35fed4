"""One HTTP request, of any verb, within hard limits: connect, silence, and total time.

A server that drips a byte now and then never trips a read time-out, so a watchdog thread shuts the
socket of every request that is past its total time, and of all of them when the run is stopped; the
thread that reads then fails at once.
"""

from __future__ import annotations

import gzip
import http.client
import select
import socket
import ssl
import threading
import time
import zlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

from headrace import __version__
from headrace.exchange.exceptions import ConnectionFailed, RequestTimeout
from headrace.exchange.transport import Response, Timeouts
from headrace.stopping import StopEvent

_WATCH_INTERVAL_S = 0.1
_BASE_HEADERS = {
    "User-Agent": f"headrace/{__version__}",
    "Accept": "application/json",
    "Accept-Encoding": "gzip",
}


class Wire:
    """Kept-alive connections to one host. Safe to use from many threads.

    Args:
        base_url: checked http or https URL.
        timeouts: limits of each request.
        verify_ssl: whether the certificate must be good.
        stop: when it is set, requests in flight are broken off and new ones refused.
    """

    def __init__(
        self,
        base_url: str,
        *,
        timeouts: Timeouts,
        verify_ssl: bool = True,
        stop: StopEvent | None = None,
    ) -> None:
        parts = urlsplit(base_url)
        self.base_url = base_url
        self.timeouts = timeouts
        self._host = parts.hostname or ""
        self._secure = parts.scheme == "https"
        self._port = parts.port or (443 if self._secure else 80)
        self._context = _context(verify_ssl) if self._secure else None
        self._stop = stop or StopEvent()
        self._idle: deque[http.client.HTTPConnection] = deque()
        self._watch = _Watch(self._stop)

    def send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> Response:
        """Send one request and read the whole answer.

        Raises:
            RequestTimeout: one of the limits was reached.
            ConnectionFailed: no connection, or it broke before the answer was complete.
            Stopped: the stop event was set before or while waiting.
        """
        self._stop.check()
        started = time.monotonic()
        flight = _Flight(started + self.timeouts.total_s)
        connection = self._taken()
        with self._watch.watching(flight):
            try:
                if connection.sock is None:
                    connection.connect()
                sock: socket.socket = connection.sock
                sock.settimeout(self.timeouts.read_s)
                flight.sock = sock
                merged = {**_BASE_HEADERS, **headers}
                connection.request(method, target, body, merged)
                answer = connection.getresponse()
                raw = answer.read()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                self._stop.check()
                raise self._named(error, flight, connected=flight.sock is not None) from error
            except BaseException:
                connection.close()
                raise
        if flight.cut:
            # Without a Content-Length a shut socket looks like the end of the body.
            connection.close()
            self._stop.check()
            raise self._over_time()
        if not answer.will_close:
            self._idle.append(connection)
        # A mapping in all but its declared base; its names have no case.
        found = cast(Mapping[str, str], answer.headers)
        content = _decoded(raw, found.get("Content-Encoding", ""))
        return Response(answer.status, found, content, time.monotonic() - started)

    def check_reachable(self) -> None:
        """Connect once without asking anything, which costs no permit.

        Raises:
            ConnectionFailed: nobody listens there, or the name is unknown.
        """
        try:
            socket.create_connection((self._host, self._port), self.timeouts.connect_s).close()
        except OSError as error:
            raise ConnectionFailed(
                f"nobody answers at {self.base_url} ({error})",
                hint="Is the address right, and the network up?",
            ) from error

    def close(self) -> None:
        """Close the kept connections and end the watchdog."""
        while self._idle:
            self._idle.pop().close()
        self._watch.close()

    def _taken(self) -> http.client.HTTPConnection:
        """A connection that is not known to be closed by the other side."""
        while True:
            try:
                kept = self._idle.pop()
            except IndexError:
                break
            if kept.sock is not None and _quiet(kept.sock):
                return kept
            kept.close()
        limit_s = self.timeouts.connect_s
        if self._secure:
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=limit_s, context=self._context
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=limit_s)

    def _named(self, error: Exception, flight: _Flight, *, connected: bool) -> ConnectionFailed:
        if flight.cut:
            return self._over_time()
        said = str(error) or type(error).__name__
        if not connected:
            if isinstance(error, TimeoutError):
                return RequestTimeout(f"no connection within {self.timeouts.connect_s:g} s")
            return ConnectionFailed(f"nobody answers at {self.base_url} ({said})")
        if isinstance(error, TimeoutError):
            return RequestTimeout(f"the server sent nothing for {self.timeouts.read_s:g} s")
        return ConnectionFailed(f"the connection broke ({said})")

    def _over_time(self) -> RequestTimeout:
        return RequestTimeout(f"no complete answer within {self.timeouts.total_s:g} s")


def _quiet(sock: socket.socket) -> bool:
    """Whether nothing waits to be read: on an idle connection that could only be its end."""
    poll = select.poll()  # not select(), which knows no descriptor above 1,023
    poll.register(sock, select.POLLIN)
    return not poll.poll(0)


def _context(verify_ssl: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _decoded(raw: bytes, encoding: str) -> bytes:
    if encoding.lower() not in ("gzip", "x-gzip"):
        return raw
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise ConnectionFailed(
            f"the body is not the gzip that it claims to be ({error})"
        ) from error


@dataclass(slots=True, eq=False)
class _Flight:
    """One request in flight: its time limit, its socket, and whether we cut it."""

    deadline: float
    sock: socket.socket | None = None
    cut: bool = field(default=False)


class _Watch:
    """Knows every request in flight, and shuts the sockets of those that are over time."""

    def __init__(self, stop: StopEvent) -> None:
        self._stop = stop
        self._lock = threading.Lock()
        self._flights: set[_Flight] = set()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def watching(self, flight: _Flight) -> _Watched:
        return _Watched(self, flight)

    def board(self, flight: _Flight) -> None:
        with self._lock:
            self._flights.add(flight)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="headrace-looker-watch", daemon=True
                )
                self._thread.start()

    def land(self, flight: _Flight) -> None:
        with self._lock:
            self._flights.discard(flight)

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(_WATCH_INTERVAL_S):
            now, stopping = time.monotonic(), self._stop.is_set()
            with self._lock:
                for flight in self._flights:
                    if (stopping or now > flight.deadline) and not flight.cut:
                        _cut(flight)


def _cut(flight: _Flight) -> None:
    if flight.sock is None:
        return  # still resolving or connecting, which has a limit of its own
    flight.cut = True
    try:
        # Below any TLS object: the reader must fail now, a clean close is not wanted.
        socket.socket.shutdown(flight.sock, socket.SHUT_RDWR)
    except OSError:
        return  # it ended by itself in the meantime


class _Watched:
    """Registers a request for the time of a `with` block."""

    def __init__(self, watch: _Watch, flight: _Flight) -> None:
        self._watch = watch
        self._flight = flight

    def __enter__(self) -> None:
        self._watch.board(self._flight)

    def __exit__(self, *_exc: object) -> None:
        self._watch.land(self._flight)
