"""Receivers on loopback for what is sent away: webhooks and mail. They keep what arrives."""

from __future__ import annotations

import email
import email.policy
import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TypeVar

R = TypeVar("R", bound=socketserver.BaseServer)


class Hook(HTTPServer):
    """Takes JSON by POST, kept in `received`, and other bodies; all are in `bodies`, with paths.

    `status` is what it answers.
    """

    def __init__(self) -> None:
        self.received: list[dict] = []
        self.bodies: list[tuple[str, bytes]] = []
        self.status = 200
        super().__init__(("127.0.0.1", 0), _HookHandler)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


class _HookHandler(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.append((self.path, body))
        if self.headers["Content-Type"] != "application/x-protobuf":
            self.server.received.append(json.loads(body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


class MailServer(socketserver.ThreadingTCPServer):
    """As much SMTP as a delivery needs, without encryption; messages are in `received`."""

    daemon_threads = True

    def __init__(self) -> None:
        self.received: list[tuple[list[str], EmailMessage]] = []
        super().__init__(("127.0.0.1", 0), _MailHandler)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])


class _MailHandler(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        recipients: list[str] = []
        self._say("220 ready")
        while line := self.rfile.readline():
            verb = line.split()[0].upper()
            if verb == b"RCPT":
                recipients.append(line.decode().strip().partition(":")[2].strip("<>"))
            if verb == b"DATA":
                self._say("354 go on")
                lines = iter(self.rfile.readline, b".\r\n")
                content = b"".join(each.removeprefix(b".") if each[:2] == b".." else each
                                   for each in lines)  # fmt: skip
                message = email.message_from_bytes(content, policy=email.policy.default)
                self.server.received.append((recipients, message))  # type: ignore[arg-type]
            self._say("221 bye" if verb == b"QUIT" else "250 ok")

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


@contextmanager
def receiving(server: R) -> Iterator[R]:
    """Serve on a thread, for a `with` block."""
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
