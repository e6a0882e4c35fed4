"""Redis for tests: one server, started and stopped by pid on loopback.

with running_redis() as server:
    server.url             # with a password
    server.kill()          # a crash; `start` begins with nothing, or with what was kept
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import redis

from tests.services_fixtures import free_port

PASSWORD = "p@ss:w/rd of a test"
_QUOTED = "p%40ss%3Aw%2Frd%20of%20a%20test"
START_LIMIT_S = 20.0


@dataclass
class RedisServer:
    """A server, running or not."""

    folder: Path
    port: int
    options: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """Where it is reached."""
        return f"redis://:{_QUOTED}@127.0.0.1:{self.port}/0"

    def client(self) -> redis.Redis:
        """What looks at it from outside."""
        return redis.Redis.from_url(self.url)

    def start(self) -> None:
        """Start it and wait until it answers."""
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *("redis-server", "--port", str(self.port), "--bind", "127.0.0.1"),
                    *("--dir", self.folder, "--requirepass", PASSWORD),
                    *(self.options or ("--save", "", "--appendonly", "no")),
                ],
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + START_LIMIT_S
        with self.client() as client:
            while True:
                try:
                    client.ping()
                except redis.ConnectionError:  # also while it loads what it kept
                    if self.process.poll() is not None or time.monotonic() > deadline:
                        said = (self.folder / "server.log").read_text()[-2000:]
                        raise RuntimeError(f"Redis did not start: {said}") from None
                    time.sleep(0.02)
                else:
                    return

    def stop(self) -> None:
        """End it in order; it keeps what its options say."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, as a crash."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """SIGSTOP: it neither answers nor closes its connections."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """End a pause."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.go_on()
            self.process.send_signal(how)
            self.process.wait(timeout=20)
            self.process = None


@contextmanager
def running_redis(*options: str) -> Iterator[RedisServer]:
    """A new server that keeps nothing, unless options say so; skips the test without Redis."""
    if shutil.which("redis-server") is None:
        pytest.skip("no Redis on this machine (Debian: apt-get install redis-server)")
    with tempfile.TemporaryDirectory(prefix="headrace-redis-") as folder:
        server = RedisServer(Path(folder), free_port(), options)
        server.start()
        try:
            yield server
        finally:
            server.kill()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """One server for the session."""
    with running_redis() as server:
        yield server


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """An empty database of it."""
    with redis_server.client() as client:
        client.flushall()
    return redis_server.url
