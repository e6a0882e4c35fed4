"""A loopback port of our own, and the question whether a Prefect API answers there."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterable

from headrace.errors import ConfigurationError

LOOPBACK = "127.0.0.1"
PREFERRED_PORT = 4200


class PortTakenError(ConfigurationError):
    """The port that was asked for is in use, or not ours to open."""

    def __init__(self, port: int, reason: str) -> None:
        super().__init__(
            f"port {port} on 127.0.0.1 cannot be used ({reason})",
            hint="Choose another with --port, or leave it out to take any free one",
        )
        self.port = port


def api_url(port: int) -> str:
    """Address of the API of a server of ours."""
    return f"http://{LOOPBACK}:{port}/api"


def ui_url(port: int) -> str:
    """Address of the pages of a server of ours."""
    return f"http://{LOOPBACK}:{port}"


def listen(asked_for: int | None, preferred: Iterable[int | None] = ()) -> socket.socket:
    """Return a socket that listens on `asked_for`, else on the first of `preferred` that is free.

    We listen here and hand the socket to the server, so that no other process can take the port
    in between, and so that an early client waits for an answer instead of being refused.

    Raises:
        PortTakenError: `asked_for` cannot be had.
    """
    if asked_for is not None:
        try:
            return _listen_on(asked_for)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise PortTakenError(asked_for, reason) from error
    for port in preferred:
        if port is None:
            continue
        try:
            return _listen_on(port)
        except (OSError, OverflowError):
            continue
    return _listen_on(0)


def _listen_on(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # Otherwise a restart on the same port fails for a minute.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        listener.listen(128)
    except BaseException:
        listener.close()
        raise
    return listener


def is_healthy(port: int, *, timeout_s: float = 1.0) -> bool:
    """Whether a Prefect API on `port` reports within `timeout_s` that it is healthy."""
    return _get(port, "/api/health", timeout_s) is True


def server_version(port: int, *, timeout_s: float = 2.0) -> str | None:
    """Return the Prefect version that the server on `port` runs, None if it does not say."""
    answer = _get(port, "/api/admin/version", timeout_s)
    return answer if isinstance(answer, str) else None


def post(port: int, path: str, body: object, *, timeout_s: float) -> object:
    """What the server on `port` answers, None if it does not answer well in time."""
    return _asked(port, "POST", path, timeout_s, json.dumps(body))


def _get(port: int, path: str, timeout_s: float) -> object:
    return _asked(port, "GET", path, timeout_s)


def _asked(port: int, method: str, path: str, timeout_s: float, body: str | None = None) -> object:
    # http.client knows no proxy settings: loopback is never to be asked through one.
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=timeout_s)
    try:
        headers = {} if body is None else {"Content-Type": "application/json"}
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return json.loads(response.read()) if response.status == http.HTTPStatus.OK else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
