"""Kept-alive connections to one server, for any number of threads."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable

from headrace.wire.connection import Connection, Limits
from headrace.wire.exceptions import WireError
from headrace.wire.message import Reply
from headrace.wire.request_deadline import Flight
from headrace.wire.route import Origin, Proxy, tls_context

#: How long a connection without a request is trusted. Gateways and firewalls on the way forget idle
#: connections and send no end of them (AWS after 350 s, Azure after 240 s, others after 60 s).
IDLE_LIMIT_S = 20.0


def awake_and_asleep_s() -> float:
    """Seconds since some moment, those included in which the machine was suspended."""
    # Only Linux's CLOCK_MONOTONIC stands still meanwhile, and Linux has the other one.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Pool:
    """Connections to `origin`. Each request takes one that is free, or opens another.

    A connection that was idle for longer than `IDLE_LIMIT_S` is closed and not used.

    Args:
        origin: the server.
        limits: time-outs.
        keep: how many idle connections are kept; more are closed after use.
        tls: for https; `tls_context()` if left out.
        proxy: through which the server is reached; None for directly.
        clock: seconds, by which the age of idle connections is measured.
    """

    def __init__(
        self,
        origin: Origin,
        limits: Limits,
        *,
        keep: int,
        tls: ssl.SSLContext | None = None,
        proxy: Proxy | None = None,
        clock: Callable[[], float] = awake_and_asleep_s,
    ) -> None:
        self._origin = origin
        self._limits = limits
        self._keep = keep
        self._tls = None
        if origin.scheme == "https":
            self._tls = tls or tls_context()
        self._proxy = proxy
        self._forwarding = proxy if origin.scheme == "http" else None
        self._lock = threading.Lock()
        self._clock = clock
        #: Since when they are idle, the latest last.
        self._idle: list[tuple[float, Connection]] = []
        self._closed = False
        #: Connections opened so far.
        self.opened = 0

    def ask(
        self,
        request: bytes | Callable[[], bytes],
        flight: Flight | None = None,
        *,
        fresh: bool = False,
    ) -> Reply:
        """Send a request, as bytes, and read the answer.

        A request is sent once; nothing is repeated here, since every attempt has its price.

        Args:
            request: its head and body; or what makes them once there is a connection, right before
                they leave. What that raises is raised here, and the connection is kept.
            flight: where its socket is named while it is under way.
            fresh: open a new connection for it and close all idle ones. For a request that follows
                a failure: what the network forgot of one connection, it forgot of the others.

        Raises:
            Unreachable, ProxyRefused, Silent, Broken: see there. `stale` says whether another
                attempt over a fresh connection is due before the server is held to have failed.
        """
        flight = flight or Flight()
        if fresh:
            self._close_idle()
        kept = None if fresh else self._free()
        connection = kept or self._another(flight)
        flight.socket, began = None, self._clock()  # it carries nothing yet
        try:
            content = request if isinstance(request, bytes) else request()
        except BaseException:
            self._give_back(connection)
            raise
        waited = self._clock() - began > IDLE_LIMIT_S
        if kept is not None and (waited or not kept.reusable):
            kept.close()
            kept, connection = None, self._another(flight)
        if self._forwarding:
            content = self._forwarding.forwarded(content, self._origin)
        try:
            reply = connection.ask(content, flight)
        except BaseException as error:
            if isinstance(error, WireError):
                error.stale = kept is not None and not connection.heard
            connection.close()
            raise
        finally:
            # A socket that carries another request by now must not be cut for this one.
            flight.socket = None
        self._give_back(connection)
        return reply

    def connect(self) -> None:
        """Open a connection, for the first request.

        Raises:
            Unreachable, ProxyRefused: see there.
        """
        self._give_back(self._another(Flight()))

    def close(self) -> None:
        """Close the idle connections, and those in use when they are given back."""
        with self._lock:
            self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _free(self) -> Connection | None:
        """The connection used last, whose server is the least likely to have closed it."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                since, connection = self._idle.pop()
            if self._clock() - since > IDLE_LIMIT_S:
                connection.close()
                self._close_idle()  # none of the others was used later
                return None
            if connection.reusable:
                return connection
            connection.close()

    def _another(self, flight: Flight) -> Connection:
        connection = Connection(self._origin, self._limits, self._tls, flight, self._proxy)
        with self._lock:
            self.opened += 1
        return connection

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            if connection.kept_open and not self._closed and len(self._idle) < self._keep:
                self._idle.append((self._clock(), connection))
                return
        connection.close()
