"""Ports: preferred, taken, ours; and who answers there."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from headrace.cli.server import PortTakenError
from headrace.cli.server.address import is_healthy, listen, server_version


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def answering(body: bytes, status: int = 200) -> HTTPServer:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server


def test_a_preferred_port_is_taken_in_order(taken: int) -> None:
    preferred = free_port()
    with listen(None, (None, taken, preferred)) as listener:
        assert listener.getsockname() == ("127.0.0.1", preferred)


def test_any_port_will_do(taken: int) -> None:
    with listen(None, (taken,)) as listener:
        assert listener.getsockname()[1] not in (0, taken)


def test_a_nonsensical_preference_does_no_harm() -> None:
    with listen(None, (99_999, -1)) as listener:
        assert listener.getsockname()[1] > 0


def test_a_port_that_was_asked_for_and_is_taken_is_an_error(taken: int) -> None:
    with pytest.raises(PortTakenError, match=str(taken)) as caught:
        listen(taken, (free_port(),))
    assert caught.value.port == taken


def test_two_never_get_the_same_port() -> None:
    port = free_port()
    with listen(None, (port,)), listen(None, (port,)) as second:
        assert second.getsockname()[1] != port


def test_a_prefect_api_is_healthy() -> None:
    server = answering(b"true")
    assert is_healthy(server.server_port)
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(("body", "status"), [(b"<html>", 200), (b'"ok"', 200), (b"true", 503)])
def test_something_else_is_not(body: bytes, status: int) -> None:
    server = answering(body, status)
    assert not is_healthy(server.server_port)
    server.shutdown()
    server.server_close()


def test_no_server_or_none_that_answers(taken: int) -> None:
    assert not is_healthy(free_port())
    assert not is_healthy(taken, timeout_s=0.05)
    assert server_version(taken, timeout_s=0.05) is None
