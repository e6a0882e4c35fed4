"""HTTP/1.1 as servers really speak it: every framing, every way to break off, kept connections."""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.wire import Broken, Flight, Limits, Origin, Pool, Reply, Silent, Unreachable
from headrace.wire.connection import Connection
from headrace.wire.pool import IDLE_LIMIT_S, awake_and_asleep_s
from tests.support.forward_proxy import make_certificate

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\n"


class Server:
    """Answers the n-th request it sees with the n-th of its answers, then closes if that says so.

    An answer is bytes, sent in pieces of `piece` bytes; None ends the connection.
    """

    def __init__(self, *answers: bytes | None, piece: int = 1 << 20) -> None:
        self.answers = list(answers)
        self.piece = piece
        self.requests: list[bytes] = []
        self.connections = 0
        self.tls: ssl.SSLContext | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def origin(self) -> Origin:
        return Origin("https" if self.tls else "http", "127.0.0.1", self.port)

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while self.answers:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._greet, args=(accepted,), daemon=True).start()

    def _greet(self, accepted: socket.socket) -> None:
        try:
            if self.tls:
                accepted = self.tls.wrap_socket(accepted, server_side=True)
            with accepted:
                self._talk(accepted)
        except OSError:
            return  # the client went away, which is what some of the tests are about

    def _talk(self, accepted: socket.socket) -> None:
        while self.answers:
            request = b""
            while not request.endswith(b"\r\n\r\n"):
                piece = accepted.recv(65_536)
                if not piece:
                    return
                request += piece
            self.requests.append(request)
            answer = self.answers.pop(0)
            if answer is None:
                return
            for at in range(0, len(answer), self.piece):
                accepted.sendall(answer[at : at + self.piece])
            if b"Connection: close" in answer or not (b"ength" in answer or b"chunked" in answer):
                return


Serve = Callable[..., tuple[Server, Pool]]


@pytest.fixture
def serve() -> Iterator[Serve]:
    opened: list[Server | Pool] = []

    def start(
        *answers: bytes | None, piece: int = 1 << 20, read_s: float = 2
    ) -> tuple[Server, Pool]:
        server = Server(*answers, piece=piece)
        pool = Pool(server.origin, Limits(2, read_s), keep=4)
        opened.extend((server, pool))
        return server, pool

    yield start
    for each in opened:
        each.close()


def answered(serve: Serve, answer: bytes | None, **options: int) -> Reply:
    _, pool = serve(answer, **options)
    return pool.ask(GET)


CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
WHOLE = {
    "a length": OK + b"Content-Length: 5\r\n\r\nhello",
    "a length said twice": OK + b"Content-Length: 5\r\ncontent-length: 5\r\n\r\nhello",
    "the end": OK + b"\r\nhello",
    "chunks": CHUNKED + b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
    "chunks with extensions and trailers": CHUNKED
    + b"2;a=b\r\nhe\r\n003\r\nllo\r\n0\r\nX-Sum: 1\r\n\r\n",
    "gzip": OK
    + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(gzip.compress(b"hello"))
    + gzip.compress(b"hello"),
    "an interim answer first": b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    + OK
    + b"Content-Length: 5\r\n\r\nhello",
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "no reason": b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello",
    "more than its length": OK + b"Content-Length: 5\r\nConnection: close\r\n\r\nhelloworld",
}


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
@pytest.mark.parametrize("framing", WHOLE)
def test_a_body_is_read_whole_however_it_is_framed_and_cut(
    serve: Serve, framing: str, piece: int
) -> None:
    reply = answered(serve, WHOLE[framing], piece=piece)

    assert (reply.status, reply.body) == (200, b"hello")


def test_a_large_body_comes_whole(serve: Serve) -> None:
    body = bytes(range(256)) * 8_000
    head = OK + b"Content-Length: %d\r\n\r\n" % len(body)

    assert answered(serve, head + body, piece=10_000).body == body


BROKEN = {
    "nothing": None,
    "a cut head": OK,
    "a cut body": OK + b"Content-Length: 9\r\nConnection: close\r\n\r\nhello",
    "a cut chunk": OK + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n9\r\nhello",
    "no last chunk": OK + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nhe\r\n",
    "a chunk longer than it says": CHUNKED + b"2\r\nhello\r\n0\r\n\r\n",
    "a chunk of odd length": CHUNKED + b"-2\r\nhe\r\n0\r\n\r\n",
    "a length that is none": OK + b"Content-Length: 5x\r\n\r\nhello",
    "a negative length": OK + b"Content-Length: -5\r\n\r\nhello",
    "lengths that differ": OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "an absurd length": OK + b"Content-Length: 99999999999\r\n\r\nhello",
    "another protocol": b"SSH-2.0-OpenSSH\r\n\r\n",
    "HTTP/2": b"HTTP/2 200\r\nContent-Length: 5\r\n\r\nhello",
    "a garbled header": OK + b"no colon\r\nContent-Length: 5\r\n\r\nhello",
    "a folded header": OK + b"A: b\r\n c: d\r\nContent-Length: 5\r\n\r\nhello",
    "a head without end": OK + b"A: b\r\n" * 20_000 + b"Content-Length",
    "an encoding not asked for": OK + b"Content-Encoding: br\r\nContent-Length: 5\r\n\r\nhello",
    "a coding not asked for": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "no gzip": OK + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
    "cut gzip": OK
    + b"Content-Encoding: gzip\r\nContent-Length: 15\r\n\r\n"
    + gzip.compress(b"hello")[:15],
}


@pytest.mark.parametrize("trouble", BROKEN)
def test_what_is_no_whole_answer_is_never_taken_for_one(serve: Serve, trouble: str) -> None:
    with pytest.raises(Broken) as broken:
        answered(serve, BROKEN[trouble])
    assert len(str(broken.value)) < 100


def test_the_status_of_an_error_is_not_hidden_by_a_body_that_cannot_be_read(serve: Serve) -> None:
    throttled = b"HTTP/1.1 429 Too Many\r\nContent-Encoding: br\r\nContent-Length: 5\r\n\r\n....."

    reply = answered(serve, throttled)

    assert (reply.status, reply.body) == (429, b"")


def test_headers_are_found_in_any_case_and_joined_when_repeated(serve: Serve) -> None:
    reply = answered(serve, OK + b"RETRY-after:  7 \r\nA: 1\r\na: 2\r\nContent-Length: 0\r\n\r\n")

    assert reply.headers.get("Retry-After") == "7"
    assert reply.headers.get("A") == "1, 2"
    assert reply.headers.get("B") is None


def test_statuses_without_a_body_need_no_length(serve: Serve) -> None:
    server, pool = serve(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", WHOLE["a length"])

    assert pool.ask(GET).body == b""
    assert pool.ask(GET).body == b"hello"
    assert server.connections == 1


def test_a_connection_is_kept_and_one_that_the_server_closed_is_not_used(serve: Serve) -> None:
    kept, last = WHOLE["a length"], OK + b"Connection: close\r\nContent-Length: 5\r\n\r\nhello"
    server, pool = serve(kept, WHOLE["chunks"], last, kept, kept)

    for _ in range(3):
        assert pool.ask(GET).body == b"hello"
    assert (server.connections, pool.opened) == (1, 1)
    for _ in range(2):
        assert pool.ask(GET).body == b"hello"
    assert (server.connections, pool.opened) == (2, 2)


def test_a_connection_closed_while_idle_is_noticed_before_it_is_used(serve: Serve) -> None:
    server, pool = serve(WHOLE["HTTP/1.0"].replace(b"OK", b"OK\r\nConnection: keep-alive"), None)
    server.answers = [server.answers[0]]
    assert pool.ask(GET).body == b"hello"
    deadline = time.monotonic() + 5
    while pool._idle[0][1].reusable and time.monotonic() < deadline:
        time.sleep(0.01)  # the server has no more answers, so it closes

    assert pool._free() is None


def test_a_connection_that_was_idle_for_long_is_not_used(serve: Serve) -> None:
    server, _ = serve(*[WHOLE["a length"]] * 3)
    now = [100.0]
    pool = Pool(server.origin, Limits(2, 2), keep=4, clock=lambda: now[0])
    pool.ask(GET)
    now[0] += IDLE_LIMIT_S - 1
    pool.ask(GET)
    assert server.connections == 1

    now[0] += IDLE_LIMIT_S + 1
    pool.ask(GET)

    assert server.connections == 2
    pool.close()


def test_the_clock_of_idle_connections_counts_the_time_of_a_suspended_machine() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)

    assert before <= awake_and_asleep_s() <= time.clock_gettime(time.CLOCK_BOOTTIME)


def kept_by(pool: Pool, server: Server, count: int) -> None:
    """Have the pool keep so many idle connections to the server."""
    pool._idle = [
        (pool._clock(), Connection(server.origin, Limits(2, 0.3), None, Flight()))
        for _ in range(count)
    ]


def test_a_request_that_wants_a_fresh_connection_closes_the_kept_ones(serve: Serve) -> None:
    server, pool = serve(*[WHOLE["a length"]] * 2)
    kept_by(pool, server, 3)
    idle = [connection for _, connection in pool._idle]

    assert pool.ask(GET, fresh=True).body == b"hello"

    assert all(connection._socket.fileno() == -1 for connection in idle)
    assert (pool.opened, len(pool._idle)) == (1, 1)


STALE = {"closed before an answer": None, "silence": b"", "a cut head": OK[:5]}


@pytest.mark.parametrize("trouble", STALE)
@pytest.mark.parametrize("kept", [True, False])
def test_only_a_kept_connection_without_a_byte_of_an_answer_is_stale(
    serve: Serve, trouble: str, kept: bool
) -> None:
    server, pool = serve(STALE[trouble], read_s=0.3)
    if kept:
        kept_by(pool, server, 1)

    with pytest.raises((Broken, Silent)) as failed:
        pool.ask(GET)

    assert failed.value.stale is (kept and trouble != "a cut head")


def test_bytes_after_an_answer_do_not_become_the_next_one(serve: Serve) -> None:
    server, pool = serve(WHOLE["a length"] + WHOLE["a length"].replace(b"hello", b"forgd"), None)
    server.answers[1] = WHOLE["a length"]
    assert pool.ask(GET).body == b"hello"

    assert pool.ask(GET).body == b"hello"
    assert server.connections == 2


def test_many_threads_share_the_pool(serve: Serve) -> None:
    server, pool = serve(*[WHOLE["a length"]] * 401)

    with ThreadPoolExecutor(8) as threads:
        bodies = list(threads.map(lambda _: pool.ask(GET).body, range(400)))
    assert bodies == [b"hello"] * 400
    # No more are opened than threads that ask at once; four of them are kept.
    assert pool.opened == server.connections < 200


def test_a_silent_server_is_not_waited_for_for_ever(serve: Serve) -> None:
    server, pool = serve(OK + b"Content-Length: 9\r\n\r\nhello", None, read_s=0.3)
    began = time.monotonic()

    with pytest.raises(Silent):
        pool.ask(GET)
    assert 0.2 < time.monotonic() - began < 30
    assert len(server.requests) == 1


def test_no_server_and_no_such_name() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(Unreachable, match="refused"):
        Pool(Origin("http", "127.0.0.1", port), Limits(1, 1), keep=1).ask(GET)
    with pytest.raises(Unreachable):
        Pool(Origin("http", "no-such-name.invalid", 80), Limits(1, 1), keep=1).ask(GET)


def test_a_flight_names_its_socket_only_while_it_is_under_way(serve: Serve) -> None:
    _, pool = serve(WHOLE["a length"])
    flight = Flight()

    pool.ask(GET, flight)

    assert flight.socket is None


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for 127.0.0.1, with its key in the same file."""
    return make_certificate(tmp_path_factory.mktemp("tls") / "both.pem", "127.0.0.1")


def tls_server(certificate: Path, *answers: bytes) -> Server:
    server = Server(*answers)
    server.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.tls.load_cert_chain(certificate)
    return server


def test_tls_with_a_trusted_certificate(certificate: Path) -> None:
    server = tls_server(certificate, WHOLE["a length"], WHOLE["chunks"])
    trusting = ssl.create_default_context(cafile=certificate)
    pool = Pool(server.origin, Limits(2, 2), keep=1, tls=trusting)

    assert [pool.ask(GET).body for _ in range(2)] == [b"hello", b"hello"]
    assert server.connections == 1
    pool.close()
    server.close()


def test_tls_with_an_unknown_certificate_is_refused_by_default(certificate: Path) -> None:
    server = tls_server(certificate, WHOLE["a length"])
    pool = Pool(server.origin, Limits(2, 2), keep=1)

    with pytest.raises(Unreachable, match="certificate") as refused:
        pool.ask(GET)
    assert refused.value.insecure
    assert server.requests == []
    server.close()


def test_origins() -> None:
    assert Origin.of("https://api.example.com/v1") == Origin("https", "api.example.com", 443)
    assert Origin.of("http://[::1]:8080") == Origin("http", "::1", 8080)
    assert Origin("http", "::1", 8080).host_header == "[::1]:8080"
    assert Origin("https", "api.example.com", 443).host_header == "api.example.com"
    for bad in ("ftp://x", "x", "http://", "http://x:99999", "http://" + "a" * 70):
        with pytest.raises(ValueError):
            Origin.of(bad)


def test_a_request_is_made_when_its_connection_stands(serve: Serve) -> None:
    server, pool = serve(*[WHOLE["a length"]] * 2)
    connections: list[int] = []

    def make() -> bytes:
        connections.append(pool.opened)
        return GET

    assert pool.ask(make).body == b"hello"
    assert connections == [1]

    def refuse() -> bytes:
        raise LookupError("no permit any more")

    with pytest.raises(LookupError):
        pool.ask(refuse)
    assert pool.ask(make).body == b"hello"
    assert (server.connections, pool.opened) == (1, 1)
    assert len(connections) == 2

    nowhere = Pool(Origin("http", "127.0.0.1", 1), Limits(2, 2), keep=4)
    with pytest.raises(Unreachable):
        nowhere.ask(make)
    assert len(connections) == 2


def test_a_kept_connection_is_not_used_when_making_the_request_took_too_long(serve: Serve) -> None:
    server, _ = serve(*[WHOLE["a length"]] * 2)
    now = [100.0]
    pool = Pool(server.origin, Limits(2, 2), keep=4, clock=lambda: now[0])
    pool.ask(GET)

    def wait() -> bytes:
        now[0] += IDLE_LIMIT_S + 1
        return GET

    assert pool.ask(wait).body == b"hello"
    assert server.connections == 2
    pool.close()
