"""A loopback port that can shut its door and open it again without ever losing the port."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable

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
        self._server: asyncio.Server | None = None
        self._minding = asyncio.Lock()
        if port:
            _assert_free(port)
        self._placeholder = _bound(port)
        self.port: int = self._placeholder.getsockname()[1]

    @property
    def url(self) -> str:
        """Where it listens, without a slash at the end."""
        return f"http://{HOST}:{self.port}"

    async def start(self) -> None:
        """Begin to listen, unless the door is to be shut."""
        await self.mind_door()

    async def run(self, stop: asyncio.Event) -> None:
        """Mind the door until told to stop, then drop every connection and give the port back."""
        try:
            while not stop.is_set():
                await self.mind_door()
                try:
                    await asyncio.wait_for(stop.wait(), _DOOR_CHECK_S)
                except TimeoutError:
                    continue
        finally:
            self._close_door()
            self._placeholder.close()

    async def mind_door(self) -> None:
        """Open or shut the door as it is to be now."""
        async with self._minding:
            if self._shut():
                self._close_door()
            elif self._server is None:
                loop = asyncio.get_running_loop()
                self._server = await loop.create_server(
                    lambda: Connection(self._handler, self._clock, self._connections),
                    sock=_bound(self.port),
                    backlog=_BACKLOG,
                )

    def _close_door(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
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
