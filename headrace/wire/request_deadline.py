"""A limit on a whole request, and a way to break off all of them.

A server that drips a byte every two seconds never trips a read time-out, so a watchdog thread shuts
the socket of every request that is past its total time, and of all of them when the run is
stopped. The thread that reads then fails at once.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

_WATCH_INTERVAL_S = 0.2


@dataclass(slots=True, eq=False)
class Flight:
    """One request in flight.

    Args:
        deadline: when it has to be over, by the monotonic clock.
        socket: its connection's, once there is one.
        cut: whether the watch ended it.
    """

    deadline: float = float("inf")
    socket: socket.socket | None = None
    cut: bool = False


class Watch:
    """Knows every request in flight, and shuts the sockets of those that are over time.

    Args:
        stopping: whether everything in flight is to be broken off.
    """

    def __init__(self, stopping: Callable[[], bool]) -> None:
        self._stopping = stopping
        self._lock = threading.Lock()
        self._flights: set[Flight] = set()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def board(self, deadline: float) -> Flight:
        """A request leaves; `land` must follow."""
        flight = Flight(deadline)
        with self._lock:
            self._flights.add(flight)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="headrace-http-watch", daemon=True
                )
                self._thread.start()
        return flight

    def land(self, flight: Flight) -> None:
        """A request is over."""
        with self._lock:
            self._flights.discard(flight)

    def close(self) -> None:
        """End the thread."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(_WATCH_INTERVAL_S):
            now = time.monotonic()
            stopping = self._stopping()
            with self._lock:
                for flight in self._flights:
                    if stopping or now > flight.deadline:
                        _cut(flight)


def _cut(flight: Flight) -> None:
    sock = flight.socket
    if sock is None:
        return  # still resolving or connecting, which has a limit of its own
    flight.cut = True
    try:
        # Below any TLS object: the reader must fail now, a clean close is not wanted.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
    except OSError:
        return  # it ended by itself in the meantime
