"""A forward proxy on loopback, TLS in front of a server, and a certificate made for it."""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass
class ForwardProxy:
    """Forwards requests for http servers, and connects with those for https (CONNECT).

    Attributes:
        hosts: the port on loopback that stands behind each host name. Others are unknown: 502.
        login: `user:password` that it wants; empty for none.
        refused: hosts that it does not allow: 403.
        seen: the first lines of the requests that came.
        port: where it listens.
    """

    hosts: Mapping[str, int]
    login: str = ""
    refused: tuple[str, ...] = ()
    seen: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://{self.login}{'@' if self.login else ''}127.0.0.1:{self.port}"

    def serve(self, client: socket.socket) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            if not (piece := client.recv(1)):
                return
            head += piece
        line, *fields = head.decode("ascii").split("\r\n")
        self.seen.append(line)
        method, target, version = line.split(" ")
        wanted = f"Proxy-Authorization: Basic {b64encode(self.login.encode()).decode()}"
        host = urlsplit(target if "://" in target else f"//{target}").hostname or ""
        status = 0
        if self.login and wanted not in fields:
            status = 407
        elif host in self.refused:
            status = 403
        elif host not in self.hosts:
            status = 502
        if status:
            client.sendall(f"HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n".encode())
            return
        with socket.create_connection(("127.0.0.1", self.hosts[host])) as upstream:
            if method == "CONNECT":
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                parts = urlsplit(target)
                path = parts.path + (f"?{parts.query}" if parts.query else "")
                kept = [each for each in fields if each and not each.startswith("Proxy-")]
                lines = [f"{method} {path} {version}", *kept, "Connection: close", "", ""]
                upstream.sendall("\r\n".join(lines).encode("ascii"))
            join(client, upstream)


def join(one: socket.socket, other: socket.socket) -> None:
    """Pass on what either says until one of them ends."""

    def pump(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65_536):
                target.sendall(data)
        except OSError:
            pass  # the other direction ended first
        for each in (source, target):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # closed already

    back = threading.Thread(target=pump, args=(other, one), daemon=True)
    back.start()
    pump(one, other)
    back.join()


@contextmanager
def forward_proxy(
    hosts: Mapping[str, int], *, login: str = "", refused: tuple[str, ...] = ()
) -> Iterator[ForwardProxy]:
    """A forward proxy until the block ends."""
    proxy = ForwardProxy(hosts, login, refused)
    with _listening(proxy.serve) as proxy.port:
        yield proxy


@contextmanager
def tls_in_front(port: int, certificate: Path) -> Iterator[int]:
    """A port on loopback that speaks TLS for a plain server on another, until the block ends."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def serve(client: socket.socket) -> None:
        with (
            context.wrap_socket(client, server_side=True) as secure,
            socket.create_connection(("127.0.0.1", port)) as upstream,
        ):
            join(secure, upstream)

    with _listening(serve) as own:
        yield own


@contextmanager
def _listening(serve: object) -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)

    def one(client: socket.socket) -> None:
        # The client may go away, or not trust the certificate.
        with client, suppress(OSError):
            serve(client)  # type: ignore[operator]

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return  # closed: the test is over
            threading.Thread(target=one, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


def make_certificate(path: Path, *hosts: str) -> Path:
    """A self-signed certificate for hosts and addresses, with its key in the same file."""
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, hosts[0])])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + signed.public_bytes(serialization.Encoding.PEM)
    )
    return path
