"""Real S3 servers for tests, started by pid on free loopback ports and stopped at the end.

Import the fixtures into a conftest:

    from tests.services_fixtures import moto_url, seaweed_url  # noqa: F401
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from headrace.lake import S3Settings

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

#: What both servers are to accept. Not a secret: they live for one test session on loopback.
ACCESS_KEY, SECRET_KEY = "headrace-test", "headrace-test-secret"
BUCKET = "lake"
START_LIMIT_S = 30.0


@pytest.fixture(scope="session")
def moto_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """moto's server: S3 in memory, without authentication."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with running(command, tmp_path_factory.mktemp("moto"), f"http://127.0.0.1:{port}"):
        make_bucket(f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="session")
def seaweed_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """SeaweedFS: S3 on disk, with authentication."""
    folder = tmp_path_factory.mktemp("seaweed")
    with seaweed(folder) as url:
        yield url


@contextmanager
def seaweed(folder: Path) -> Iterator[str]:
    """One SeaweedFS over `folder` on ports of its own; the URL of its S3 side."""
    # Each port is also used 10,000 higher, for gRPC.
    ports = {name: str(free_port(twin=10_000)) for name in ("master", "volume", "filer", "s3")}
    command = [
        str(Path(sys.executable).with_name("weed")),
        "mini",
        f"-dir={folder}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        *(f"-{name}.port={port}" for name, port in ports.items()),
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-admin.ui=false",
        f"-admin.port={free_port(twin=10_000)}",
        "-webdav=false",
    ]
    url = f"http://127.0.0.1:{ports['s3']}"
    with running(command, folder, url):
        make_bucket(url)
        yield url


@contextmanager
def running(command: list[str], folder: Path, url: str) -> Iterator[subprocess.Popen[bytes]]:
    """A server process that answers at `url`; its output goes to a log in `folder`."""
    environment = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    }
    log = folder / "server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=output
        )
    try:
        _wait_until_it_answers(server, url, log)
        yield server
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait(timeout=10)


#: Ports that this process has handed out: a server takes several, and opens them later.
_handed_out: set[int] = set()


def free_port(*, twin: int = 0) -> int:
    """A loopback port that no process listens on, below the range of outgoing connections.

    None is handed out twice.
    """
    while True:
        port = random.randrange(12_000, 22_000)
        ports = {port, port + twin}
        if not ports & _handed_out and all(_is_free(candidate) for candidate in ports):
            _handed_out.update(ports)
            return port


def make_bucket(url: str, bucket: str = BUCKET) -> None:
    """Make a bucket and wait until it takes objects, which is later than the first answer."""
    client = s3_client(url)
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        try:
            client.create_bucket(Bucket=bucket)
            client.put_object(Bucket=bucket, Key="ready", Body=b"")
            client.delete_object(Bucket=bucket, Key="ready")
        except (ClientError, BotoCoreError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def s3_client(url: str) -> S3Client:
    """A plain boto3 client for what the store does not offer, such as making buckets."""
    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
    )


def settings_for(url: str, **changes: object) -> S3Settings:
    """Settings that reach a test server and do not insist for long."""
    values: dict[str, object] = {
        "endpoint_url": url,
        "region": "us-east-1",
        "access_key_id": ACCESS_KEY,
        "secret_access_key": SECRET_KEY,
        "give_up_after_s": 10.0,
        "longest_pause_s": 0.5,
        "listing_page": 10,
    }
    return S3Settings.model_validate({**values, **changes})


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _wait_until_it_answers(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"{server.args!r} ended by itself: {log.read_text()[-2000:]}")
        try:
            urllib.request.urlopen(url, timeout=1).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError(f"{server.args!r} did not answer at {url}: {log.read_text()[-2000:]}")
