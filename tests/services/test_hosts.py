"""Four workers as four hosts: homes of their own, one Postgres for quota and leases, one lake."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pyarrow.dataset as ds
import pytest

from headrace.cli.deployments.plan import default_plan_path
from headrace.cli.server import ManagedServer
from headrace.leases import LeaseStatus, open_leases
from headrace.sim import SimulatedExchangeProcess, SlidingWindow
from tests.support.postgres import running_postgres
from tests.support.served import BIN, Server, clean_environment, wait_until

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(900)]

PRODUCTS = [f"P{n}-USD" for n in range(8)]
PAGES, PER_S = 200, 15
TRADES = PAGES * 1000


@contextmanager
def worker(server: Server, host: int) -> Iterator[subprocess.Popen[bytes]]:
    """A worker with a state folder of its own, and everything that it starts."""
    with (server.folder / f"worker-{host}.log").open("wb") as log:
        process = subprocess.Popen(
            [str(BIN / "prefect"), "worker", "start", "--pool", "headrace"],
            cwd=server.folder,
            env={**server.environment, "HEADRACE_HOME": str(server.folder / f"host-{host}")},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        kill_family(process.pid)
        process.wait()


def kill_family(pid: int) -> int:
    """SIGKILL to a process and all that it started, as when its host is gone; how many."""
    try:
        root = psutil.Process(pid)
        family = [*root.children(recursive=True), root]
    except psutil.NoSuchProcess:
        return 0
    for each in family:
        try:
            each.kill()
        except psutil.NoSuchProcess:
            continue
    return len(family)


def test_a_host_that_dies_in_mid_run(tmp_path: Path) -> None:
    shutil.copy(default_plan_path(), tmp_path)
    shutil.copytree(default_plan_path().parent / "flows", tmp_path / "flows")
    managed = ManagedServer(tmp_path / "home")
    tape = [f"{product}:{TRADES}" for product in PRODUCTS]
    limit = SlidingWindow(requests=PER_S, per_s=1)
    with ExitStack() as opened:
        postgres = opened.enter_context(running_postgres())
        sim = opened.enter_context(SimulatedExchangeProcess(*tape, seed=3, limits=[limit]))
        shared = postgres.new_database()
        own = clean_environment(
            HEADRACE_HOME=str(tmp_path / "home"),
            HEADRACE_COINBASE_URL=sim.url,
            HEADRACE_RATE=f"{PER_S}/s",
            HEADRACE_LEASES=shared,
            HEADRACE_QUOTA=shared,
            HEADRACE_LEASE_TTL_S="20",
            PREFECT_HOME=str(tmp_path / "prefect-home"),
        )
        opened.callback(managed.down)
        api_url = managed.up().api_url
        server = Server(tmp_path, {**own, "PREFECT_API_URL": api_url}, api_url)
        server.prefect("work-pool", "create", "headrace", "--type", "process")
        server.prefect("--no-prompt", "deploy", "--all")
        workers = [opened.enter_context(worker(server, host)) for host in range(4)]
        wait_until(lambda: ready(server), 120, "a worker")

        words = [*PRODUCTS, "--spread", "8", "--lake", str(tmp_path / "lake"), "--json"]
        run = subprocess.Popen(
            [str(BIN / "headrace"), "backfill", *words],
            cwd=tmp_path,
            env=server.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        # A worker that has begun all that it has taken.
        lost = wait_until(lambda: at_work(workers, shared), 300, "a worker at work")
        kill_family(lost.pid)
        said, errors = run.communicate(timeout=500)
        assert run.returncode == 0, errors
        counted = sim.stats()

    summary = json.loads(said)
    assert {each["product"]: each["watermark"] for each in summary["products"]} == dict.fromkeys(
        PRODUCTS, TRADES
    )
    assert max(each["starts"] for each in summary["parts"]) == 2
    for product in PRODUCTS:
        folder = tmp_path / f"lake/raw/trades/exchange=coinbase/product={product}"
        ids = ds.dataset(folder).to_table(columns=["trade_id"])["trade_id"].to_pylist()
        assert sorted(ids) == list(range(1, TRADES + 1))
    assert counted["throttled"] == 0


def at_work(workers: list[subprocess.Popen[bytes]], shared: str) -> subprocess.Popen[bytes] | None:
    """A worker all of whose runs hold their leases, once all parts do."""
    held = [
        state.holder.pid
        for state in open_leases(shared).list()
        if "/spread/" in state.name and state.holder and state.status is LeaseStatus.HELD
    ]
    if len(held) < len(PRODUCTS):
        return None
    families = {
        each.pid: {child.pid for child in psutil.Process(each.pid).children(recursive=True)}
        for each in workers
    }
    return max(workers, key=lambda each: len(families[each.pid] & set(held)))


def ready(server: Server) -> bool:
    return bool(server.deployment("pull-part/spread")["status"] == "READY")
