"""PostgreSQL restarts, stands still, goes away, refuses, and holds what we did not write."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pyarrow.dataset as ds
import pytest

from headrace.leases import (
    DamagedLeases,
    LeaseHeld,
    LeaseLost,
    LeaseStatus,
    LeaseStore,
    LeaseStoreMisconfigured,
    LeaseStoreUnavailable,
    NewerLeases,
    hold,
    open_leases,
)
from headrace.leases.clock import SERVERS_APART_S
from headrace.leases.postgres import PostgresLeases
from headrace.leases.this_machine import THIS_MACHINE
from headrace.postgres import PostgresAddress
from headrace.sim import SimulatedExchange
from tests.services_fixtures import free_port
from tests.support.elsewhere import Elsewhere
from tests.support.postgres import (
    PASSWORD,
    PostgresServer,
    postgres,
    running_postgres,
)
from tests.support.served import BIN, clean_environment, wait_until

__all__ = ["postgres"]

pytestmark = pytest.mark.services

NAME = "coinbase/BTC-USD"


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> str:
    """A database of its own: these tests look at what is in it, and at its rights."""
    return postgres.new_database()


@pytest.fixture
def store(postgres_url: str) -> LeaseStore:
    return open_leases(postgres_url)


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


def test_a_restart_is_outlasted(own_server: PostgresServer) -> None:
    """A crash and two seconds without a server, in which a check is made."""
    store = open_leases(own_server.new_database())
    losses: list[LeaseLost] = []
    with hold(store, NAME, run_id="one", ttl_s=30, on_lost=losses.append) as lease:
        own_server.kill()
        back = threading.Timer(2.0, own_server.start)
        back.start()
        lease.check()
        back.join()
        with pytest.raises(LeaseHeld):
            store.acquire(NAME, run_id="two", ttl_s=30)
        store.renew(lease.grant)
    assert losses == []
    assert store.state(NAME).status is LeaseStatus.FREE


def test_a_server_that_does_not_come_back_ends_the_lease(
    own_server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_leases(own_server.new_database(), patience_s=0.2)
    lost = threading.Event()
    with hold(store, NAME, run_id="one", ttl_s=2.0, on_lost=lambda _: lost.set()) as lease:
        own_server.stop()
        with pytest.raises(LeaseStoreUnavailable, match="HEADRACE_LEASES"):
            lease.check()
        assert lost.wait(60)
        with pytest.raises(LeaseLost, match="not renewed for 2 s"):
            lease.check()
    assert "HEADRACE_LEASES" in caplog.text
    assert PASSWORD not in caplog.text


def test_no_server() -> None:
    store = open_leases(f"postgres://u:secret-word@127.0.0.1:{free_port()}/db", patience_s=0.2)
    with pytest.raises(LeaseStoreUnavailable, match="HEADRACE_LEASES") as caught:
        store.acquire(NAME, run_id="one", ttl_s=60)
    assert "secret-word" not in str(caught.value)


@pytest.mark.parametrize("wrong", ["password", "database"])
def test_what_the_server_refuses(postgres: PostgresServer, wrong: str) -> None:
    url = postgres.url("missing") if wrong == "database" else postgres.url(password="not-this")
    began = time.monotonic()
    with pytest.raises(LeaseStoreMisconfigured, match="HEADRACE_LEASES") as caught:
        open_leases(url).list()
    assert time.monotonic() - began < 5, "what is refused for good is not asked for again"
    assert "not-this" not in str(caught.value)


def test_a_look_makes_no_table(store: LeaseStore, postgres_url: str) -> None:
    assert store.list() == ()
    assert store.state(NAME).status is LeaseStatus.FREE
    store.measure()
    assert tables_of(postgres_url) == []
    store.acquire(NAME, run_id="one", ttl_s=60)
    assert tables_of(postgres_url) == [("headrace_lease",)]


def tables_of(url: str) -> list[tuple[str]]:
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        ).fetchall()


def test_a_user_who_may_not_make_the_table(
    store: LeaseStore,
    postgres: PostgresServer,
    postgres_url: str,
) -> None:
    """A table that is there suffices, with the rights that the documentation names."""
    role = f"plain_{time.monotonic_ns()}"
    database = postgres_url.rpartition("/")[2]
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'plain-word'")
        admin.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        plain = open_leases(postgres.url(database, user=role, password="plain-word"))
        with pytest.raises(LeaseStoreMisconfigured, match="Grant the user of HEADRACE_LEASES"):
            plain.acquire(NAME, run_id="one", ttl_s=60)
        store.release(store.acquire(NAME, run_id="two", ttl_s=60))
        admin.execute(f"GRANT SELECT, INSERT, UPDATE ON headrace_lease TO {role}")
        plain.check(plain.renew(plain.acquire(NAME, run_id="one", ttl_s=60)))


def test_rows_that_are_not_ours(store: LeaseStore, postgres_url: str) -> None:
    grant = store.acquire(NAME, run_id="one", ttl_s=60)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for change, error in (
            ("schema_version = 2", NewerLeases),
            ("schema_version = 1, holder = '{\"pid\": 1}'", DamagedLeases),
        ):
            connection.execute(f"UPDATE headrace_lease SET {change}")
            for call in (lambda: store.renew(grant), lambda: store.check(grant), store.list):
                with pytest.raises(error, match=NAME):
                    call()


@pytest.mark.parametrize("ahead_s", [-3600.0, 3600.0])
def test_the_clocks_of_machines_do_not_count(
    store: LeaseStore,
    postgres_url: str,
    ahead_s: float,
) -> None:
    """An hour off either way, in a session of another time zone: the server's time decides."""
    url = f"{postgres_url}?options=-c%20TimeZone%3DAsia/Tokyo"
    address = PostgresAddress(url, setting="HEADRACE_LEASES")
    wrong = PostgresLeases(address, machine=Elsewhere("wrong", ahead_s))
    began = THIS_MACHINE.boot_s()
    grant = wrong.acquire(NAME, run_id="wrong", ttl_s=1.0)
    assert grant.holder.since.tzinfo is UTC
    assert abs(grant.holder.since - datetime.now(UTC)) < timedelta(seconds=60)
    taken = None
    while taken is None:
        try:
            taken = store.acquire(NAME, run_id="ours", ttl_s=60)
        except LeaseHeld:
            assert THIS_MACHINE.boot_s() < began + 60, "the lease never ended"
            time.sleep(0.1)
    assert THIS_MACHINE.boot_s() - began >= 1.0 + SERVERS_APART_S - 0.1
    assert taken.token > grant.token
    with pytest.raises(LeaseHeld):
        wrong.acquire(NAME, run_id="wrong", ttl_s=60)


@pytest.mark.slow
def test_a_run_goes_on_over_a_crash_of_the_server(
    own_server: PostgresServer, tmp_path: Path
) -> None:
    """Three seconds without leases in mid-run: the run waits, and commits every trade once."""
    trades = 60_000
    with SimulatedExchange(f"BTC-USD:{trades}", seed=3, latency="constant:s=0.5") as sim:
        environment = clean_environment(
            HEADRACE_HOME=str(tmp_path / "home"),
            HEADRACE_LEASES=own_server.new_database(),
            HEADRACE_LEASE_TTL_S="30",
        )
        words = ["backfill", "BTC-USD", "--base-url", sim.url, "--rate", "none"]
        run = subprocess.Popen(
            [str(BIN / "headrace"), *words, "--chunk-concurrency", "2", "--json"],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: list(tmp_path.rglob("part-*.parquet")), 90, "the first part")
        own_server.kill()
        time.sleep(3)
        own_server.start()
        said, errors = run.communicate(timeout=110)
    assert run.returncode == 0, errors
    [product] = json.loads(said)["products"]
    assert (product["new_rows"], product["watermark"]) == (trades, trades)
    table = ds.dataset(tmp_path / "data/lake/raw/trades").to_table(columns=["trade_id"])
    assert sorted(table["trade_id"].to_pylist()) == list(range(1, trades + 1))
