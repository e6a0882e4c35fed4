"""Receivers on loopback for what is sent away: webhooks and mail. They keep what arrives."""

from __future__ import annotations

import email
import email.policy
import json
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TypeVar

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.services_fixtures import free_port

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


@dataclass
class Mail:
    """A server that takes mail.

    Attributes:
        port: where it listens on 127.0.0.1.
        received: recipients and message of each mail.
        logins: who has logged in, once for each mail.
    """

    port: int
    received: list[tuple[list[str], EmailMessage]] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)

    async def handle_DATA(self, _: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        """Keep a mail."""
        content = envelope.content
        assert isinstance(content, bytes)
        message = email.message_from_bytes(content, policy=email.policy.default)
        self.received.append((envelope.rcpt_tos, message))  # type: ignore[arg-type]
        if session.authenticated:
            self.logins.append(str(session.auth_data))
        return "250 taken"


@contextmanager
def mail_server(
    certificate: Path | None = None, *, at_once: bool = False, login: tuple[str, str] | None = None
) -> Iterator[Mail]:
    """A mail server on loopback.

    Args:
        certificate: a PEM file with its key: mail comes encrypted, or is refused.
        at_once: connections begin encrypted, not with STARTTLS.
        login: user and password that it wants.
    """
    mail = Mail(free_port())
    context = None
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    starts = context is not None and not at_once

    def check(
        _server: SMTP, _session: Session, _envelope: Envelope, _kind: str, given: LoginPassword
    ) -> AuthResult:
        right = login == (given.login.decode(), given.password.decode())
        return AuthResult(success=right, handled=False, auth_data=given.login.decode())

    controller = Controller(
        mail,
        hostname="127.0.0.1",
        port=mail.port,
        ssl_context=context if at_once else None,
        tls_context=context if starts else None,
        require_starttls=starts,
        auth_required=login is not None,
        auth_require_tls=starts,
        authenticator=check,
    )
    controller.start()
    try:
        yield mail
    finally:
        controller.stop()


@contextmanager
def receiving(server: R) -> Iterator[R]:
    """Serve on a thread, for a `with` block."""
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
