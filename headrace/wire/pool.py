"""Kept-alive connections to one server, for any number of threads."""

from __future__ import annotations

import ssl
import threading

from headrace.wire.connection import Connection, Limits
from headrace.wire.message import Reply
from headrace.wire.origin import Origin
from headrace.wire.watch import Flight


class Pool:
    """Connections to `origin`. Each request takes one that is free, or opens another.

    Args:
        origin: the server.
        limits: time-outs.
        keep: how many idle connections are kept; more are closed after use.
        tls: for https; Python's default context (system certificates, host names checked) if left
            out.
    """

    def __init__(
        self,
        origin: Origin,
        limits: Limits,
        *,
        keep: int,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._origin = origin
        self._limits = limits
        self._keep = keep
        self._tls = tls
        if origin.scheme == "https" and tls is None:
            self._tls = ssl.create_default_context()
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._closed = False
        #: Connections opened so far.
        self.opened = 0

    def ask(self, request: bytes, flight: Flight | None = None) -> Reply:
        """Send a request, as the bytes of its head, and read the answer.

        A request is sent once; nothing is repeated here, since every attempt has its price.

        Raises:
            Unreachable, Silent, Broken: see there.
        """
        flight = flight or Flight()
        connection = self._free() or self._another(flight)
        try:
            reply = connection.ask(request, flight)
        except BaseException:
            connection.close()
            raise
        finally:
            # A socket that carries another request by now must not be cut for this one.
            flight.socket = None
        self._give_back(connection)
        return reply

    def close(self) -> None:
        """Close the idle connections, and those in use when they are given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _free(self) -> Connection | None:
        """The connection used last, whose server is the least likely to have closed it."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if connection.reusable:
                return connection
            connection.close()

    def _another(self, flight: Flight) -> Connection:
        connection = Connection(self._origin, self._limits, self._tls, flight)
        with self._lock:
            self.opened += 1
        return connection

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            if connection.kept_open and not self._closed and len(self._idle) < self._keep:
                self._idle.append(connection)
                return
        connection.close()
