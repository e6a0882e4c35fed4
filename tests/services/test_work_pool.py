"""`prefect deploy --all` on a server with a work pool, and a worker that runs what was deployed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.deployments.plan import default_plan_path, read_plan
from headrace.cli.server import ManagedServer
from headrace.sim import SimulatedExchange
from tests.support.served import BIN, Server, clean_environment, wait_until

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(600)]

PROJECT = default_plan_path().parent
PLAN = read_plan(default_plan_path())
#: What these need is an exchange; the others have tests of their own.
OF_TRADES = ("flows.backfill", "flows.ingest", "flows.audit")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server, a pool, everything deployed from a copy of the project, and a worker."""
    folder = tmp_path_factory.mktemp("pool")
    shutil.copy(default_plan_path(), folder)
    shutil.copytree(PROJECT / "flows", folder / "flows")
    managed = ManagedServer(folder / "home")
    with SimulatedExchange("BTC-USD:2500", seed=4) as sim:
        own = clean_environment(
            HEADRACE_HOME=str(folder / "home"),
            HEADRACE_COINBASE_URL=sim.url,
            HEADRACE_RATE="none",
            PREFECT_HOME=str(folder / "prefect-home"),
        )
        started = Server(folder, own, managed.up().api_url)
        started.prefect("work-pool", "create", "headrace", "--type", "process")
        started.prefect("--no-prompt", "deploy", "--all")
        worker = subprocess.Popen(
            [str(BIN / "prefect"), "worker", "start", "--pool", "headrace"],
            cwd=folder,
            env={**own, "PREFECT_API_URL": started.api_url},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield started
        finally:
            worker.terminate()
            try:
                worker.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(worker.pid, signal.SIGKILL)
            managed.down()


def test_everything_is_deployed_as_the_file_says(server: Server) -> None:
    found = server.ask("POST", "/deployments/filter", {"limit": 200})
    assert sorted((each["entrypoint"], each["name"], each["version"]) for each in found) == sorted(
        (each.entrypoint, each.name, each.version) for each in PLAN.deployments
    )
    assert {each["work_pool_name"] for each in found} == {"headrace"}
    assert {each["concurrency_options"]["collision_strategy"] for each in found} == {"CANCEL_NEW"}


@pytest.mark.parametrize(
    "planned",
    [each for each in PLAN.deployments if each.module in OF_TRADES],
    ids=lambda planned: planned.entrypoint,
)
def test_each_runs_once(server: Server, planned) -> None:
    name = planned.function
    run = server.ended(server.start(f"{name}/{planned.name}"), 180)
    assert run["state_type"] in ("COMPLETED", "FAILED"), run["state"]
    if name != "audit":
        assert run["state_type"] == "COMPLETED", run["state"]
        lake = Path(server.folder) / "data/lake"
        wait_until(lambda: list(lake.rglob("*.parquet")), 10, "the lake")
