"""A time-stamp authority on loopback: answers of RFC 3161, made by `openssl ts`."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_CONFIG = """
[tsa]
default_tsa = ours
[ours]
serial = {folder}/serial
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
ess_cert_id_alg = sha256
"""


@dataclass
class Authority:
    """An authority with one self-signed certificate.

    Attributes:
        url: where it answers.
        certificates: its PEM file.
        status, body: what it answers with instead; a status other than 200 comes without a body.
        asked: the queries that came.
    """

    folder: Path
    url: str = ""
    status: int = 200
    body: bytes | None = None
    asked: list[bytes] = field(default_factory=list)

    @property
    def certificates(self) -> Path:
        return self.folder / "tsa.pem"

    def certify(self, since: datetime, until: datetime) -> None:
        """Take a new key and certificate."""
        key = rsa.generate_private_key(65537, 2048)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Authority of the tests")])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(since)
            .not_valid_after(until)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING]), True)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
            .sign(key, hashes.SHA256())
        )
        self.certificates.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (self.folder / "key.pem").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        (self.folder / "serial").write_text("01\n")
        (self.folder / "ts.conf").write_text(_CONFIG.format(folder=self.folder))

    def answer(self, query: bytes) -> bytes:
        self.asked.append(query)
        if self.body is not None:
            return self.body
        asked, made = self.folder / "query.tsq", self.folder / "answer.tsr"
        asked.write_bytes(query)
        words = ["openssl", "ts", "-reply", "-config", "ts.conf", "-queryfile", asked, "-out", made]
        words += ["-signer", "tsa.pem", "-inkey", "key.pem"]
        subprocess.run(words, cwd=self.folder, check=True, capture_output=True)
        return made.read_bytes()


@contextmanager
def authority(folder: Path) -> Iterator[Authority]:
    """An authority whose certificate is good, on a free port."""
    folder.mkdir()
    made = Authority(folder)
    now = datetime.now(UTC)
    made.certify(now - timedelta(days=1), now + timedelta(days=1))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.headers["Content-Type"] == "application/timestamp-query"
            content = made.answer(query) if made.status == 200 else b""
            self.send_response(made.status)
            self.send_header("Content-Type", "application/timestamp-reply")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}/tsa"
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
