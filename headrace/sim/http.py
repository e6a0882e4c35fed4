"""A small HTTP/1.1 server on asyncio that can also misbehave on the wire, byte by byte.

It is written by hand because a server that keeps to the protocol cannot be made to break it: to
promise more bytes than it sends, to drip, to reset. One connection is one request at a time, kept
alive; any number of connections wait side by side. Its port can refuse connections for a while
without ever being lost to another process.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal, cast
from urllib.parse import parse_qsl

from headrace.sim.exceptions import HostUnusableError, PortInUseError

_MAX_HEAD_BYTES = 64 * 1024
_MAX_BODY_BYTES = 64 * 1024 * 1024
JSON = "application/json; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came in.

    `target` is path with query as sent; header names are lower case; `arrived_s` is when its first
    line had been read, on the server's clock.
    """

    method: str
    target: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    arrived_s: float


@dataclass(frozen=True, slots=True)
class Delivery:
    """How a reply goes out.

    Args:
        how: whole, or cut after `at_byte` bytes of the body in one of three ways (the length
            promises more; no length and closed; chunked without an end), reset after `at_byte`
            bytes of the message, held back for `pause_s` (`None`: for ever) and then closed
            without a word, or dripped, a byte every `pause_s`, from the headers on or in the body.
    """

    how: Literal[
        "whole", "cut_length", "cut_close", "cut_chunked", "reset", "hang", "drip_head", "drip_body"
    ] = "whole"
    at_byte: int = 0
    pause_s: float | None = None


WHOLE = Delivery()


@dataclass(frozen=True, slots=True)
class Reply:
    """A status, a body, and how to send them."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    delivery: Delivery = WHOLE


Handler = Callable[[Request], Awaitable[Reply]]
Clock = Callable[[], float]


class BadRequest(Exception):
    """The bytes of a client are no HTTP/1.1 request that this server reads."""


class Connection(asyncio.Protocol):
    """One client: reads requests, asks the handler, sends what it says.

    Args:
        handler: answers a request; cancelled when the client goes away.
        clock: the time of arrivals.
        open_connections: this connection adds itself while it lives.
    """

    def __init__(self, handler: Handler, clock: Clock, open_connections: set[Connection]) -> None:
        self._handler, self._clock, self._open = handler, clock, open_connections
        self._received = bytearray()
        self._line_read_s: float | None = None
        self._serving: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the wire, and send small answers at once."""
        self._transport = cast(asyncio.Transport, transport)
        wire = transport.get_extra_info("socket")
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Stop answering a client that is gone."""
        self._open.discard(self)
        if self._serving:
            self._serving.cancel()

    def data_received(self, data: bytes) -> None:
        """Collect bytes; serve as soon as they make a request."""
        self._received += data
        if self._serving is None:
            self._serve_next()

    def reset(self) -> None:
        """Drop the connection with a TCP reset, and whatever was not sent yet."""
        wire = self._transport.get_extra_info("socket")
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def _serve_next(self) -> None:
        if self._line_read_s is None and b"\r\n" in self._received:
            self._line_read_s = self._clock()
        try:
            request = self._take_request()
        except BadRequest as error:
            self._transport.write(encode(Reply(400, str(error).encode(), "text/plain"), close=True))
            self._transport.close()
            return
        if request is not None:
            self._line_read_s = None
            self._serving = asyncio.get_running_loop().create_task(self._serve(request))

    async def _serve(self, request: Request) -> None:
        try:
            reply = await self._handler(request)
        except Exception:
            self.reset()  # a client must not wait for an answer that a bug of ours swallowed
            raise
        # After HEAD, a body would be read as the next answer: close instead of leaving it out.
        close = request.method == "HEAD" or request.headers.get("connection", "").lower() == "close"
        await self._deliver(reply, close=close)
        self._serving = None
        if not self._transport.is_closing():
            self._serve_next()

    def _take_request(self) -> Request | None:
        """Cut one complete request off the received bytes; `None` while it is not complete."""
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            if len(self._received) > _MAX_HEAD_BYTES:
                raise BadRequest("the headers are too long")
            return None
        request_line, *header_lines = self._received[:end].decode("latin-1").split("\r\n")
        headers = {}
        for line in header_lines:
            name, colon, value = line.partition(":")
            if not colon:
                raise BadRequest(f"no header: {line[:80]!r}")
            headers[name.strip().lower()] = value.strip()
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers or not length.isascii() or not length.isdigit():
            raise BadRequest("a body needs a Content-Length")
        body_end = end + 4 + int(length)
        if body_end - end > _MAX_BODY_BYTES:
            raise BadRequest("the body is too long")
        if len(self._received) < body_end:
            return None
        body = bytes(self._received[end + 4 : body_end])
        del self._received[:body_end]
        words = request_line.split(" ")
        if len(words) != 3 or words[2] != "HTTP/1.1" or not words[1].startswith("/"):
            raise BadRequest(f"no HTTP/1.1 request line: {request_line[:80]!r}")
        path, _, query = words[1].partition("?")
        assert self._line_read_s is not None, "a request has a first line"
        return Request(
            method=words[0],
            target=words[1],
            path=path,
            query=dict(parse_qsl(query, keep_blank_values=True)),
            headers=headers,
            body=body,
            arrived_s=self._line_read_s,
        )

    async def _deliver(self, reply: Reply, *, close: bool) -> None:
        delivery, wire = reply.delivery, self._transport
        if delivery.how == "whole":
            wire.write(encode(reply, close=close))
            if close:
                wire.close()
            return
        if delivery.how.startswith("drip"):
            await self._drip(reply, close=close)
            return
        if delivery.how == "hang":
            await asyncio.sleep(_FOR_EVER_S if delivery.pause_s is None else delivery.pause_s)
        elif delivery.how == "reset":
            wire.write(encode(reply, close=close)[: delivery.at_byte])
            self.reset()
            return
        else:
            wire.write(_cut(reply))
        wire.close()

    async def _drip(self, reply: Reply, *, close: bool) -> None:
        message = encode(reply, close=close)
        sent = 0
        if reply.delivery.how == "drip_body":
            sent = len(message) - len(reply.body)
            self._transport.write(message[:sent])
        for at in range(sent, len(message)):
            self._transport.write(message[at : at + 1])
            await asyncio.sleep(reply.delivery.pause_s or 0.0)
        if close:
            self._transport.close()


_FOR_EVER_S = 10 * 365 * 86_400.0


def encode(reply: Reply, *, close: bool) -> bytes:
    """The bytes of a reply that keeps to the protocol."""
    length = f"Content-Length: {len(reply.body)}\r\n"
    return _head(reply, length + ("Connection: close\r\n" if close else "")) + reply.body


def _cut(reply: Reply) -> bytes:
    sent = reply.body[: reply.delivery.at_byte]
    match reply.delivery.how:
        case "cut_length":
            promised = max(len(reply.body), len(sent) + 1)
            return _head(reply, f"Content-Length: {promised}\r\n") + sent
        case "cut_close":
            return _head(reply, "Connection: close\r\n") + sent
        case _:
            chunk = f"{len(sent):x}\r\n".encode() + sent + b"\r\n" if sent else b""
            return _head(reply, "Transfer-Encoding: chunked\r\n") + chunk


def _head(reply: Reply, framing: str) -> bytes:
    try:
        reason = HTTPStatus(reply.status).phrase
    except ValueError:  # 520 and its like are Cloudflare's own
        reason = "Unknown"
    extra = "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
    return (
        f"HTTP/1.1 {reply.status} {reason}\r\nContent-Type: {reply.content_type}\r\n"
        f"{extra}{framing}\r\n"
    ).encode("latin-1")


HOST = "127.0.0.1"
_BACKLOG = 1024
_CHECK_S = 0.02


class Listener:
    """Serves a handler on 127.0.0.1, or where it is asked to.

    A second socket is bound to the port and never listens: while nothing else listens, the
    kernel refuses connections, and no other process can take the port.

    Args:
        handler: answers requests.
        clock: the time of arrivals.
        refuses: asked 50 times a second whether connections are to be refused.
        port: 0 for any that is free.
        host: the address; 0.0.0.0 is every one of a container.

    Raises:
        PortInUseError: another process listens there.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        clock: Clock,
        refuses: Callable[[], bool],
        port: int = 0,
        host: str = HOST,
    ) -> None:
        self._host = host = _address(host)
        self._handler, self._clock, self._refuses = handler, clock, refuses
        self._connections: set[Connection] = set()
        self._connecting: set[asyncio.Task[Any]] = set()
        self._listening: socket.socket | None = None
        if port:
            _assert_free(port, host)
        self._placeholder = _bound(port, host)
        self.port: int = self._placeholder.getsockname()[1]

    @property
    def url(self) -> str:
        """Where it listens, without a slash at the end."""
        return f"http://{self._host}:{self.port}"

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then drop every connection and release the port."""
        try:
            while not stop.is_set():
                self.open_or_close()
                try:
                    await asyncio.wait_for(stop.wait(), _CHECK_S)
                except TimeoutError:
                    continue
        finally:
            self._close()
            if self._connecting:
                await asyncio.wait(self._connecting)
            self._drop_connections()
            self._placeholder.close()

    def open_or_close(self) -> None:
        """Accept or refuse connections as is wanted now; on the thread of the running loop."""
        if self._refuses():
            self._close()
        elif self._listening is None:
            self._listening = _bound(self.port, self._host)
            self._listening.setblocking(False)
            self._listening.listen(_BACKLOG)
            asyncio.get_running_loop().add_reader(self._listening, self._accept, self._listening)

    def _accept(self, listening: socket.socket) -> None:
        # Not asyncio's own server: when that closes, it forgets a connection it has just accepted
        # without closing it, and the client waits for ever.
        loop = asyncio.get_running_loop()
        try:
            wire, _ = listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        connecting = loop.create_task(loop.connect_accepted_socket(self._connection, wire))
        self._connecting.add(connecting)
        connecting.add_done_callback(self._connecting.discard)

    def _connection(self) -> Connection:
        return Connection(self._handler, self._clock, self._connections)

    def _close(self) -> None:
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening)
            self._listening.close()
            self._listening = None
        self._drop_connections()

    def _drop_connections(self) -> None:
        for connection in list(self._connections):
            connection.reset()


def _bound(port: int, host: str) -> socket.socket:
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    held.bind((host, port))
    return held


def _address(host: str) -> str:
    """The address of a name, once something could be bound to it."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError as error:
            raise HostUnusableError(host, error.strerror or str(error)) from error
        return str(probe.getsockname()[0])


def _assert_free(port: int, host: str) -> None:
    """Fail where `SO_REUSEPORT` would let two servers share a port and halve their requests."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                raise PortInUseError(port, host) from error
            raise
