"""`headrace top` where machines share quotas and leases: all in one view, and servers that fail."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import SecretStr
from rich.console import Console

from headrace.cli.top import look
from headrace.leases import hold, open_leases
from headrace.quota import BreakerConfig, QuotaConfig, open_gate
from headrace.quota.location import read_server
from headrace.quota.status import drop_quota
from headrace.settings import load_settings
from tests.services_fixtures import free_port
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.processes import HEADRACE
from tests.support.redis import PASSWORD, RedisServer, running_redis

pytestmark = [pytest.mark.services, pytest.mark.timeout(240)]

QUOTA, LEASES = "HEADRACE_QUOTA", "HEADRACE_LEASES"
LEASE = "coinbase/BTC-USD"
WRONG = "hush-hush"
SECRETS = (WRONG, PASSWORD, "p%40ss")


@dataclass(frozen=True)
class Servers:
    """A Redis and a PostgreSQL."""

    redis: RedisServer
    postgres: PostgresServer

    def url(self, kind: str) -> str:
        """Where one of them is reached."""
        return self.redis.url if kind == "redis" else self.postgres.url()


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with running_redis() as redis, running_postgres() as postgres:
        yield Servers(redis, postgres)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.chdir(tmp_path)


@contextmanager
def in_use(quota: str, leases: str) -> Iterator[None]:
    """A quota with an open breaker, and a lease, both held by this process."""
    breaker = BreakerConfig(failures=1, cooldown_s=300)
    place = read_server(SecretStr(quota))
    with (
        open_gate(place, QuotaConfig(name="api", rates="60/s"), breaker) as gate,
        gate.admit() as admission,
        hold(open_leases(leases), LEASE, run_id="run-7"),
    ):
        admission.answered(500)
        yield
    drop_quota(place, "api")


@pytest.mark.parametrize("kind", ["redis", "postgres"])
def test_everything_that_machines_share_is_in_one_view(
    kind: str, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    quota, leases = servers.url(kind), servers.url("postgres")
    monkeypatch.setenv(QUOTA, quota)
    monkeypatch.setenv(LEASES, leases)
    with in_use(quota, leases):
        view = look(load_settings())
    assert view.problems == []
    (shown,) = view.as_json()["quotas"]
    assert (shown["name"], shown["breaker"]["phase"]) == ("api", "open")
    (process,) = shown["processes"]
    assert process["machine"] == socket.gethostname()
    (lease,) = view.leases
    assert (lease["name"], lease["holder"]["run_id"]) == (LEASE, "run-7")
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(view.drawn())
    drawn = console.export_text()
    places = (f"quotas in {read_server(SecretStr(quota))}", f"leases in {view.places['leases']}")
    for words in (*places, "60/s", "open, 1 failure", LEASE, socket.gethostname()):
        assert words in drawn
    assert not [secret for secret in SECRETS if secret in drawn]


@pytest.mark.parametrize("trouble", ["away", "refuses"])
@pytest.mark.parametrize(
    ("setting", "kind"), [(QUOTA, "redis"), (QUOTA, "postgres"), (LEASES, "postgres")]
)
def test_a_server_that_cannot_be_asked_is_one_line_and_the_rest_is_shown(
    setting: str, kind: str, trouble: str, servers: Servers
) -> None:
    port = {"redis": servers.redis.port, "postgres": servers.postgres.port}[kind]
    user = {"redis": "", "postgres": "headrace"}[kind]
    database = {"redis": "0", "postgres": "postgres"}[kind]
    if trouble == "away":
        port = free_port()
    quota, leases = servers.url("redis"), servers.url("postgres")
    environment = {**os.environ, QUOTA: quota, LEASES: leases, "COLUMNS": "400"}
    environment[setting] = f"{kind}://{user}:{WRONG}@127.0.0.1:{port}/{database}"
    with in_use(quota, leases):
        done = subprocess.run(
            [HEADRACE, "top"], env=environment, capture_output=True, text=True, timeout=120
        )
    assert (done.returncode, done.stderr) == (0, "")
    [problem] = [line for line in done.stdout.splitlines() if setting in line]
    assert problem.startswith("quotas: " if setting == QUOTA else "leases: ")
    assert {QUOTA: LEASE, LEASES: "open, 1 failure"}[setting] in done.stdout
    assert not [secret for secret in SECRETS if secret in done.stdout]


def test_leases_that_cannot_be_asked_do_not_hold_up_the_view(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run asks such a server again for ten seconds; the view is drawn every two."""
    monkeypatch.setenv(LEASES, f"postgres://headrace:{WRONG}@127.0.0.1:{free_port()}/postgres")
    began = time.monotonic()
    [problem] = look(load_settings()).problems
    assert time.monotonic() - began < 8
    assert problem.startswith("leases: ")


@contextmanager
def watching(settings: dict[str, str]) -> Iterator[Callable[[Callable[[str], bool]], str]]:
    """`headrace top` on a terminal: a function that waits for a frame; it ends with Ctrl-C."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 400, 0, 0))
    # pytest's workers have a width and height that would count, not those of the terminal.
    size = ("COLUMNS", "LINES")
    of_the_tests = {name: text for name, text in os.environ.items() if name not in size}
    process = subprocess.Popen(
        [HEADRACE, "top", "--interval-s", "0.5"], stdin=theirs, stdout=theirs,
        stderr=subprocess.PIPE, start_new_session=True,
        env={**of_the_tests, **settings, "TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)

    def frame(wanted: Callable[[str], bool]) -> str:
        seen, deadline = b"", time.monotonic() + 60
        while time.monotonic() < deadline:
            if select.select([ours], [], [], 1)[0]:
                seen += os.read(ours, 65_536)
            # What stands before the first title, and behind the last one, is no whole frame.
            for each in seen.decode(errors="replace").split("headrace top, ")[1:-1]:
                if wanted(each):
                    return each
        raise AssertionError(seen[-4_000:].decode(errors="replace"))

    try:
        yield frame
        process.send_signal(signal.SIGINT)
        with suppress(OSError):  # what is drawn is read until the process has closed its terminal
            while os.read(ours, 65_536):
                pass
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.mark.parametrize("kind", ["redis", "postgres"])
def test_the_view_goes_on_while_a_server_is_away(kind: str) -> None:
    with running_redis() if kind == "redis" else running_postgres() as server:
        url = server.url if isinstance(server, RedisServer) else server.url()
        settings = {QUOTA: url} if kind == "redis" else {QUOTA: url, LEASES: url}
        with open_gate(read_server(SecretStr(url)), QuotaConfig(name="api", rates="60/s")) as gate:
            gate.take()
        with watching(settings) as frame:
            assert "60/s" in frame(lambda text: "60/s" in text)
            server.kill()
            without = frame(lambda text: all(each in text for each in settings))
            assert "60/s" not in without
            assert "no run is under way" in without
            server.start()
            frame(lambda text: "quotas in" in text and not any(each in text for each in settings))
