"""One connection to a server: open it, send a request, read the whole answer."""

from __future__ import annotations

import select
import socket
import ssl
import struct
import zlib
from dataclasses import dataclass

from headrace.wire.exceptions import Broken, ProxyRefused, Silent, Unreachable
from headrace.wire.message import SWITCHING_PROTOCOLS, Head, Reply, parse_head
from headrace.wire.request_deadline import Flight
from headrace.wire.route import Origin, Proxy

#: What a head and a line of a chunked body may take, and a body with its encoding undone.
MOST_HEAD_BYTES = 65_536
MOST_LINE_BYTES = 4_096
MOST_BODY_BYTES = 256 << 20
_PIECE_BYTES = 65_536
_HEAD_PIECE_BYTES = 4_096
_END_OF_HEAD = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds to connect, and to wait for the next byte."""

    connect_s: float = 10.0
    read_s: float = 30.0


class Connection:
    """A connection that carries one request at a time. Not for several threads at once.

    Args:
        origin: where to.
        limits: time-outs.
        tls: how to do TLS; needed for https.
        flight: gets the socket as soon as there is one, so that it can be cut.
        proxy: the proxy on the way, if there is one.

    Raises:
        Unreachable: no connection.
        ProxyRefused: the proxy does not open the way to a server with TLS.
    """

    def __init__(
        self,
        origin: Origin,
        limits: Limits,
        tls: ssl.SSLContext | None,
        flight: Flight,
        proxy: Proxy | None = None,
    ) -> None:
        self._socket = _connect(origin, limits, tls, flight, proxy)
        if tls is None:
            _wait_in_the_kernel(self._socket, limits.read_s)
        else:
            self._socket.settimeout(limits.read_s)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._piece = bytearray(_PIECE_BYTES)
        #: Bytes that came and were not used yet.
        self._rest = b""
        self._open = True
        #: Whether a byte of the answer to the last request came.
        self.heard = False

    @property
    def kept_open(self) -> bool:
        """Whether the last answer was complete and the server promised to take another request."""
        return self._open and not self._rest

    @property
    def reusable(self) -> bool:
        """Whether the server keeps that promise: it neither closed nor said anything since."""
        return self.kept_open and not self._poll.poll(0)

    def ask(self, request: bytes, flight: Flight) -> Reply:
        """Send a request, as bytes, and read its answer.

        Raises:
            Silent: nothing came for as long as the read time-out.
            Broken: the connection or the answer broke.
        """
        self._open, keeps_open = False, False
        self.heard = False
        flight.socket = self._socket
        try:
            self._socket.sendall(request)
            head = self._head()
            while head.status < 200 and head.status != SWITCHING_PROTOCOLS:
                head = self._head()
            body, keeps_open = self._body(head)
        except (TimeoutError, BlockingIOError) as error:
            raise Silent("the server sent nothing") from error
        except OSError as error:
            raise Broken(error.strerror or str(error) or type(error).__name__) from error
        self._open = keeps_open
        return Reply(head.status, head.headers, _decode(head, body))

    def close(self) -> None:
        """Close the socket."""
        self._open = False
        self._socket.close()

    def _receive(self, most: int = _PIECE_BYTES) -> bytes:
        """What comes next, empty at the end."""
        count = self._socket.recv_into(self._piece, most)
        return bytes(memoryview(self._piece)[:count])

    def _head(self) -> Head:
        raw = self._rest
        while (end := raw.find(_END_OF_HEAD)) < 0:
            if len(raw) > MOST_HEAD_BYTES:
                raise Broken("the head of the answer has no end")
            # A head is short, and what comes with it is copied twice more.
            piece = self._receive(_HEAD_PIECE_BYTES)
            if not piece:
                raise Broken("cut off in its headers" if raw else "closed without an answer")
            self.heard = True
            raw += piece
        self._rest = raw[end + len(_END_OF_HEAD) :]
        return parse_head(raw[:end])

    def _body(self, head: Head) -> tuple[bytes, bool]:
        """The body as it came, and whether the connection can be used again after it."""
        if head.chunked:
            return self._chunks(), head.keeps_open
        length = head.length
        if length is None:
            return self._until_closed(), False
        return self._exactly(length), head.keeps_open

    def _exactly(self, length: int) -> bytes:
        if length > MOST_BODY_BYTES:
            raise Broken(f"an answer of {length} bytes")
        have = len(self._rest)
        if have >= length:
            body, self._rest = self._rest[:length], self._rest[length:]
            return body
        whole = bytearray(length)
        view = memoryview(whole)
        view[:have] = self._rest
        self._rest = b""
        while have < length:
            count = self._socket.recv_into(view[have:])
            if not count:
                raise Broken(f"cut off after {have} of {length} bytes")
            have += count
        return bytes(whole)

    def _until_closed(self) -> bytes:
        pieces, size = [self._rest], len(self._rest)
        self._rest = b""
        while piece := self._receive():
            pieces.append(piece)
            size += len(piece)
            if size > MOST_BODY_BYTES:
                raise Broken("an answer without end")
        return b"".join(pieces)

    def _chunks(self) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while length := _chunk_length(self._line()):
            size += length
            if size > MOST_BODY_BYTES:
                raise Broken("an answer without end")
            pieces.append(self._exactly(length))
            if self._line():
                raise Broken("a chunk of another length than it says")
        while self._line():
            pass  # trailers, which were not asked for
        return b"".join(pieces)

    def _line(self) -> bytes:
        while (end := self._rest.find(b"\r\n")) < 0:
            if len(self._rest) > MOST_LINE_BYTES:
                raise Broken("a line of a chunked answer has no end")
            piece = self._receive()
            if not piece:
                raise Broken("cut off between two chunks")
            self._rest += piece
        line, self._rest = self._rest[:end], self._rest[end + 2 :]
        return line


def _wait_in_the_kernel(connected: socket.socket, read_s: float) -> None:
    """Time-outs of the kernel's own: Python's cost a `poll`, and the GIL twice, for each call.

    A call that takes longer ends with `BlockingIOError`. TLS needs Python's.
    """
    span = struct.pack("@ll", *divmod(max(1, round(read_s * 1e6)), 1_000_000))
    connected.settimeout(None)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, span)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, span)


def _connect(
    origin: Origin, limits: Limits, tls: ssl.SSLContext | None, flight: Flight, proxy: Proxy | None
) -> socket.socket:
    first = proxy.origin if proxy else origin
    try:
        plain = socket.create_connection((first.host, first.port), limits.connect_s)
    except TimeoutError as error:
        raise Unreachable("timed out", timed_out=True) from error
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Unreachable(reason) from error
    flight.socket = plain
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is None:
            return plain
        if proxy:
            _open_tunnel(plain, origin, proxy)
        # An end without TLS's own word of it is a cut body, not a complete one.
        return tls.wrap_socket(plain, server_hostname=origin.host, suppress_ragged_eofs=False)
    except (ProxyRefused, Unreachable):
        plain.close()
        raise
    except TimeoutError as error:
        plain.close()
        raise Unreachable("timed out", timed_out=True) from error
    except (OSError, ValueError) as error:
        plain.close()
        raise Unreachable(str(error), insecure=tls is not None) from error


def _open_tunnel(plain: socket.socket, origin: Origin, proxy: Proxy) -> None:
    """Have a proxy connect this socket with a server (CONNECT, RFC 9110, 9.3.6)."""
    host = f"[{origin.host}]" if ":" in origin.host else origin.host.encode("idna").decode()
    target = f"{host}:{origin.port}".encode("ascii")
    plain.sendall(b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n" % (target, target, proxy.headers))
    raw = b""
    while not raw.endswith(_END_OF_HEAD):
        # Byte by byte: what follows the head belongs to TLS.
        piece = plain.recv(1)
        if not piece or len(raw) > MOST_HEAD_BYTES:
            raise Unreachable("the proxy closed the connection without an answer")
        raw += piece
    try:
        status = parse_head(raw[: -len(_END_OF_HEAD)]).status
    except Broken as error:
        raise Unreachable("the proxy's answer is not HTTP/1.1") from error
    if not 200 <= status < 300:
        raise ProxyRefused(status)


def _chunk_length(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    try:
        if not 1 <= len(digits) <= 8 or not digits.isalnum():
            raise ValueError
        return int(digits, 16)
    except ValueError:
        raise Broken("a chunk of unreadable length") from None


def _decode(head: Head, body: bytes) -> bytes:
    """The body without its encoding; none was asked for, but gzip is sent all the same by some.

    Of an error the status is what counts: a body that cannot be read must not hide it.
    """
    try:
        return _plain(head.headers.get("content-encoding") or "identity", body)
    except Broken:
        if head.status < 300:
            raise
        return b""


def _plain(coding: str, body: bytes) -> bytes:
    coding = coding.strip().lower()
    if coding == "identity" or not body:
        return body
    if coding not in ("gzip", "x-gzip"):
        raise Broken("the answer has an encoding that was not asked for")
    unpacker = zlib.decompressobj(wbits=31)
    try:
        plain = unpacker.decompress(body, MOST_BODY_BYTES)
    except zlib.error as error:
        raise Broken("the answer is no valid gzip") from error
    if not unpacker.eof:
        raise Broken("the answer's gzip is cut off")
    return plain
