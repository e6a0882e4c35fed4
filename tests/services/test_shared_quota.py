"""Quotas on real servers that fail, and on those that cannot keep one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from headrace.cli import quota
from headrace.doctor import Severity
from headrace.doctor.checks.quota import check_breakers, check_quotas
from headrace.errors import ConfigurationError
from headrace.quota import (
    BreakerConfig,
    Gate,
    PermitTimeout,
    QuotaConfig,
    QuotaUnavailable,
    open_gate,
)
from headrace.quota.exceptions import QuotaServerRefused
from headrace.quota.location import QuotaServer, read_server
from headrace.quota.selftest import excess
from headrace.sim import SimulatedExchangeProcess, SlidingWindow
from tests.services_fixtures import free_port
from tests.support.clock_shift import built_clock_shift, shifted
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.processes import HEADRACE
from tests.support.redis import PASSWORD, RedisServer, running_redis

pytestmark = pytest.mark.services

RATE, WINDOW_NS = 20, 1_000_000_000
Server = RedisServer | PostgresServer
HOST = Path(__file__).parents[1] / "quota_host.py"


@contextmanager
def running(kind: str) -> Iterator[tuple[Server, QuotaServer]]:
    """A server of one kind, and how a setting names it."""
    if kind == "redis":
        with running_redis() as redis:
            yield redis, read_server(SecretStr(redis.url))
    else:
        with running_postgres() as postgres:
            yield postgres, read_server(SecretStr(postgres.url()))


class Callers:
    """Threads on gates of their own, each as good as a process, that take all they get."""

    def __init__(self, place: QuotaServer, count: int = 3) -> None:
        self.departures: list[int] = []
        self.failures: list[Exception] = []
        self._end = threading.Event()
        config = QuotaConfig(name="q", rates=f"{RATE}/s")
        self._gates = [open_gate(place, config, BreakerConfig()) for _ in range(count)]
        self._threads = [threading.Thread(target=self._take, args=(one,)) for one in self._gates]
        for thread in self._threads:
            thread.start()

    def _take(self, gate: Gate) -> None:
        while not self._end.is_set():
            try:
                with gate.admit(timeout_s=60) as admission:
                    admission.sending()
                    self.departures.append(time.monotonic_ns())
                    time.sleep(0.1)  # some answers come while the server is away
                    admission.answered(200)
            except Exception as error:  # noqa: BLE001 - the test says what may be raised
                self.failures.append(error)
                return

    def wait_for(self, more: int, limit_s: float = 60) -> None:
        """Wait until so many more permits were given."""
        wanted = len(self.departures) + more
        deadline = time.monotonic() + limit_s
        while len(self.departures) < wanted:
            assert not self.failures, self.failures
            assert time.monotonic() < deadline, "no permits"
            time.sleep(0.01)

    def end(self) -> list[int]:
        """When all of them left."""
        self._end.set()
        for thread in self._threads:
            thread.join(timeout=60)
        for gate in self._gates:
            assert gate.status().health == "ok", "it is not the exchange that was away"
            gate.close()
        assert not self.failures, self.failures
        return sorted(self.departures)


def restart(server: Server) -> None:
    server.kill()
    time.sleep(1)
    server.start()


def restart_in_order(server: Server) -> None:
    server.stop()
    server.start()


def stand_still(server: Server) -> None:
    server.pause()
    time.sleep(5)
    server.go_on()


def cut_off(server: Server) -> None:
    """End every connection, time and again, while the server goes on."""
    for _ in range(5):
        if isinstance(server, RedisServer):
            with server.client() as client:
                client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        else:
            with psycopg.connect(server.url(), autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name = 'headrace quota'"
                )
        time.sleep(0.2)


@pytest.mark.parametrize(
    "trouble",
    [restart, pytest.param(restart_in_order, marks=pytest.mark.slow), stand_still, cut_off],
)
@pytest.mark.parametrize("kind", ["redis", "postgres"])
def test_no_window_is_overfull_whatever_happens_to_the_server(
    kind: str, trouble: Callable[[Server], None]
) -> None:
    with running(kind) as (server, place):
        callers = Callers(place)
        callers.wait_for(3 * RATE)
        began = time.monotonic_ns()
        trouble(server)
        ended = time.monotonic_ns()
        callers.wait_for(3 * RATE)
        departures = callers.end()
    # A thread may be held up between its permit and the note of when it left.
    assert excess(departures, RATE, WINDOW_NS).early_ms < 50
    if trouble is stand_still:
        # What was fixed before still leaves; after that nothing does.
        quiet = [at for at in departures if began + 600_000_000 < at < ended]
        assert quiet == []


@pytest.mark.parametrize("kind", ["redis", "postgres"])
def test_hosts_with_wrong_clocks_keep_one_limit(kind: str, tmp_path: Path) -> None:
    library = built_clock_shift(tmp_path)
    limit = SlidingWindow(requests=RATE, per_s=1)
    with (
        running(kind) as (_, place),
        SimulatedExchangeProcess("BTC-USD:1000", limits=[limit]) as sim,
    ):
        words = [place.url.get_secret_value(), f"{RATE}/s", sim.url, "BTC-USD", "6"]
        hosts = [
            subprocess.Popen(
                [sys.executable, str(HOST), *words],
                env={**os.environ, **shifted(library, wrong_s)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for wrong_s in (0, 0, 3, -3)
        ]
        try:
            for host in hosts:
                assert host.stdout is not None
                assert host.stdout.readline() == "ready\n"
            wrong = [host.communicate("go\n", timeout=300)[0].strip() for host in hosts]
        finally:
            for host in hosts:
                host.kill()
                host.communicate()
        counted = sim.stats()
    assert wrong == ["0", "0", "3", "-3"]
    assert counted["throttled"] == 0
    assert counted["most_in_window"]["1.0"] <= RATE
    assert counted["requests"] > RATE


@pytest.mark.parametrize("kind", ["redis", "postgres"])
def test_a_deadline_holds_while_the_server_is_away(kind: str) -> None:
    with running(kind) as (server, place):
        gate = open_gate(place, QuotaConfig(name="q", rates="1000/s"))
        gate.take()
        server.kill()
        began = time.monotonic()
        with pytest.raises(PermitTimeout), gate.admit(timeout_s=1):
            pass
        assert time.monotonic() - began < 20
        server.start()
        gate.take(timeout_s=30)
        gate.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru"], "maxmemory-policy"),
        (["--cluster-enabled", "yes"], "cluster, which is not supported"),
        (["--replicaof", "127.0.0.1 1"], "replica"),
    ],
)
def test_a_redis_that_may_forget_is_refused(options: list[str], said: str) -> None:
    with running_redis(*options) as server, pytest.raises(QuotaServerRefused) as caught:
        open_gate(read_server(SecretStr(server.url)), QuotaConfig(name="q", rates="10/s"))
    assert said in str(caught.value)
    assert "HEADRACE_QUOTA" in str(caught.value)


def test_a_full_redis_gives_no_permits() -> None:
    with (
        running_redis("--save", "", "--maxmemory", "1") as server,
        pytest.raises(QuotaUnavailable, match="maxmemory"),
    ):
        open_gate(read_server(SecretStr(server.url)), QuotaConfig(name="q", rates="10/s"))


def test_a_redis_that_keeps_what_it_knows_goes_on_with_it() -> None:
    with running_redis("--save", "", "--appendonly", "yes", "--appendfsync", "always") as server:
        place = read_server(SecretStr(server.url))
        config = QuotaConfig(name="q", rates="10/s")
        breaker = BreakerConfig(failures=1, cooldown_s=300)
        with open_gate(place, config, breaker) as gate, gate.admit() as admission:
            admission.answered(500)
        restart_in_order(server)
        with open_gate(place, config, breaker) as gate:
            assert gate.status().health == "open"


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    """Settings that cannot work."""
    with running_redis() as redis, running_postgres() as postgres:
        nothing = free_port()
        yield {
            "redis away": f"redis://:hush-hush@127.0.0.1:{nothing}/0",
            "postgres away": f"postgres://u:hush-hush@127.0.0.1:{nothing}/d",
            "redis refuses": f"redis://:hush-hush@127.0.0.1:{redis.port}/0",
            "postgres refuses": postgres.url(password="hush-hush"),
            "no database": postgres.url("nowhere"),
            "no URL": "ftp://u:hush-hush@127.0.0.1/d",
        }


@pytest.mark.parametrize(
    ("which", "code"),
    [
        ("redis away", 1),
        ("postgres away", 1),
        ("redis refuses", 2),
        ("postgres refuses", 2),
        ("no database", 2),
        ("no URL", 2),
    ],
)
def test_commands_name_the_setting_and_show_no_password(
    urls: dict[str, str], which: str, code: int, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    monkeypatch.setenv("HEADRACE_QUOTA", urls[which])
    done = subprocess.run([HEADRACE, "quota", "status"], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert "HEADRACE_QUOTA" in done.stderr
    assert "Traceback" not in done.stderr
    for secret in ("hush-hush", PASSWORD, "p%40ss"):
        assert secret not in done.stderr


@pytest.mark.parametrize("kind", ["redis", "postgres"])
def test_the_commands_of_quota_and_breaker(kind: str, tmp_path: Path, monkeypatch: Any) -> None:
    def run(group: str, *words: str) -> str:
        app = quota.app if group == "quota" else quota.breaker_app
        done = CliRunner().invoke(app, words, catch_exceptions=False)
        assert done.exit_code == 0
        return done.stdout

    with running(kind) as (_, place):
        monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
        monkeypatch.setenv("HEADRACE_QUOTA", place.url.get_secret_value())
        breaker = BreakerConfig(failures=1, cooldown_s=300)
        with open_gate(place, QuotaConfig(name="api", rates="60/s"), breaker) as gate:
            with gate.admit() as admission:
                admission.answered(429, retry_after_s=100)
            assert "api: blocked" in run("quota", "status")
            run("quota", "reset", "api")
            with gate.admit(timeout_s=5) as admission:
                admission.answered(500)
            assert "open, 1 failure" in run("breaker", "status")
            run("breaker", "reset", "api")
            assert "closed" in run("breaker", "status", "api")
        assert "removed" in run("quota", "drop", "api", "--yes")
        with pytest.raises(ConfigurationError, match="Known: none"):
            run("quota", "status", "api")
        assert "above the limit" in run("quota", "bench", "--seconds", "1", "--processes", "2")
        assert "no quota was used yet" in run("quota", "status")
        assert not (tmp_path / "quota" / "quota-api.sqlite").exists()


@pytest.mark.parametrize("kind", ["redis", "postgres"])
def test_doctor_says_what_it_is_and_who_has_other_rates(kind: str) -> None:
    with running(kind) as (server, place):
        target: Any = SimpleNamespace(
            quotas=lambda: place, base_url="http://127.0.0.1:8080", rate="20/s"
        )
        said = [(finding.severity, finding.what) for finding in check_quotas(target)]
        assert {severity for severity, _ in said} == {Severity.OK}
        assert "answers within" in said[0][1]
        assert "its clock is 0.0" in said[1][1]
        if isinstance(server, PostgresServer):
            with psycopg.connect(server.url()) as connection:
                tables = "SELECT count(*) FROM pg_tables WHERE tablename LIKE 'headrace%'"
                assert connection.execute(tables).fetchone() == (0,), "looking made tables"
        config = QuotaConfig(name="127.0.0.1:8080", rates="10/s")
        with open_gate(place, config, BreakerConfig(failures=1)) as gate:
            gate.take()
            gate.status()
            (wrong,) = [one for one in check_quotas(target) if one.severity is Severity.PROBLEM]
            assert f"on {socket.gethostname()}), HEADRACE_RATE says 20/s" in wrong.what
            with gate.admit(timeout_s=5) as admission:
                admission.answered(500)
        (opened,) = check_breakers(target)
        assert opened.severity is Severity.PROBLEM
        assert "the breaker is open for another" in opened.what
