"""A loopback port that can shut its door and open it again without ever losing the port."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any

from headrace.sim.exceptions import PortInUseError
from headrace.sim.http import Clock, Connection, Handler

HOST = "127.0.0.1"
_BACKLOG = 1024
_DOOR_CHECK_S = 0.02


class Listener:
    """Serves a handler on 127.0.0.1.

    A second socket is bound to the port and never listens: while the door is shut, the kernel
    refuses connections, and nobody else can take the port.

    Args:
        handler: answers requests.
        clock: the time of arrivals.
        shut: asked 50 times a second whether connections are to be refused.
        port: 0 for any that is free.

    Raises:
        PortInUseError: somebody else listens there.
    """

    def __init__(
        self, handler: Handler, *, clock: Clock, shut: Callable[[], bool], port: int = 0
    ) -> None:
        self._handler, self._clock, self._shut = handler, clock, shut
        self._connections: set[Connection] = set()
        self._connecting: set[asyncio.Task[Any]] = set()
        self._door: socket.socket | None = None
        if port:
            _assert_free(port)
        self._placeholder = _bound(port)
        self.port: int = self._placeholder.getsockname()[1]

    @property
    def url(self) -> str:
        """Where it listens, without a slash at the end."""
        return f"http://{HOST}:{self.port}"

    async def run(self, stop: asyncio.Event) -> None:
        """Mind the door until told to stop, then drop every connection and give the port back."""
        try:
            while not stop.is_set():
                self.mind_door()
                try:
                    await asyncio.wait_for(stop.wait(), _DOOR_CHECK_S)
                except TimeoutError:
                    continue
        finally:
            self._close_door()
            if self._connecting:
                await asyncio.wait(self._connecting)
            self._drop_connections()
            self._placeholder.close()

    def mind_door(self) -> None:
        """Open or shut the door as it is to be now; on the thread of the running loop."""
        if self._shut():
            self._close_door()
        elif self._door is None:
            self._door = _bound(self.port)
            self._door.setblocking(False)
            self._door.listen(_BACKLOG)
            asyncio.get_running_loop().add_reader(self._door, self._accept, self._door)

    def _accept(self, door: socket.socket) -> None:
        # Not asyncio's own server: when that closes, it forgets a connection it has just accepted
        # without closing it, and the client waits for ever.
        loop = asyncio.get_running_loop()
        try:
            wire, _ = door.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        connecting = loop.create_task(loop.connect_accepted_socket(self._connection, wire))
        self._connecting.add(connecting)
        connecting.add_done_callback(self._connecting.discard)

    def _connection(self) -> Connection:
        return Connection(self._handler, self._clock, self._connections)

    def _close_door(self) -> None:
        if self._door is not None:
            asyncio.get_running_loop().remove_reader(self._door)
            self._door.close()
            self._door = None
        self._drop_connections()

    def _drop_connections(self) -> None:
        for connection in list(self._connections):
            connection.reset()


def _bound(port: int) -> socket.socket:
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    held.bind((HOST, port))
    return held


def _assert_free(port: int) -> None:
    """Fail where `SO_REUSEPORT` would let two servers share a port and halve their requests."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                raise PortInUseError(port) from error
            raise
