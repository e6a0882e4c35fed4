"""A gateway on loopback that forgets idle connections, as NATs and firewalls on the way do."""

from __future__ import annotations

import selectors
import socket
import struct
import threading
from typing import Literal, Self


class ForgetfulGateway:
    """Forwards connections to a port on loopback until `forget` is called, new ones at any time.

    What a client sends on a forgotten connection is answered by a reset, or by nothing at all. No
    end of a connection is passed on: a forgotten one looks alive to both sides.

    Args:
        upstream: the port.
        then: `reset` (as AWS NAT gateways do) or `silence` (as many firewalls do).

    Attributes:
        connections: how many were opened so far.
        lost: how many requests came on forgotten ones.
        dead: whether new connections are forgotten at once.
    """

    def __init__(self, upstream: int, then: Literal["reset", "silence"]) -> None:
        self.connections = 0
        self.lost = 0
        self.dead = False
        self._upstream = upstream
        self._then = then
        self._age = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def forget(self) -> None:
        """Forget every connection that is open now."""
        self._age += 1

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed: the test is over
            self.connections += 1
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        age = -1 if self.dead else self._age
        upstream = socket.create_connection(("127.0.0.1", self._upstream))
        with client, upstream, selectors.DefaultSelector() as ready:
            ready.register(client, selectors.EVENT_READ, upstream)
            ready.register(upstream, selectors.EVENT_READ, client)
            while True:
                for key, _ in ready.select():
                    source: socket.socket = key.fileobj  # type: ignore[assignment]
                    try:
                        data = source.recv(65_536)
                    except ConnectionResetError:
                        data = b""
                    if age == self._age and data:
                        key.data.sendall(data)
                    elif source is client and data:
                        self.lost += 1
                        if self._then == "reset":
                            linger = struct.pack("ii", 1, 0)
                            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                            return
                    elif source is client or age == self._age:
                        return
                    else:
                        ready.unregister(upstream)
