"""`prefect deploy --all` on a server with a work pool, and a worker that runs what was deployed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from headrace.cli.deployments.plan import default_plan_path, read_plan
from headrace.cli.server import ManagedServer
from headrace.sim import SimulatedExchange
from headrace.sim.looker import SimulatedLooker
from headrace.sot.unsharded_log import OldLog
from tests.support.looker import SECRET
from tests.support.served import Server, clean_environment

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(600)]

PROJECT = default_plan_path().parent
PLAN = read_plan(default_plan_path())
#: Where a run must have left something, below the folder in which workers work.
LEAVES = {
    "backfill": "data/lake/raw/trades/**/*.parquet",
    "ingest": "data/lake/raw/trades/**/*.parquet",
    "pull_part": "data/lake/raw/trades/**/*.parquet",
    "sot_write": "data/sot/**/*",
    "sot_recover": "replay.sot",
    "looker": "data/looker.sqlite",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server, a pool, everything deployed from a copy of the project, and a worker."""
    folder = tmp_path_factory.mktemp("pool")
    shutil.copy(default_plan_path(), folder)
    shutil.copytree(PROJECT / "flows", folder / "flows")
    managed = ManagedServer(folder / "home")
    with (
        SimulatedExchange("BTC-USD:2500", seed=4) as sim,
        SimulatedLooker(counts={"dashboard": 12, "look": 3}) as looker,
    ):
        own = clean_environment(
            HEADRACE_HOME=str(folder / "home"),
            HEADRACE_COINBASE_URL=sim.url,
            HEADRACE_RATE="none",
            HEADRACE_LOOKER_RATE="none",
            PREFECT_HOME=str(folder / "prefect-home"),
            LOOKERSDK_BASE_URL=looker.url,
            LOOKERSDK_CLIENT_ID="headrace",
            LOOKERSDK_CLIENT_SECRET=SECRET,
        )
        started = Server(folder, own, managed.up().api_url)
        a_stream_and_an_old_log(started)
        started.prefect("work-pool", "create", "headrace", "--type", "process")
        started.prefect("--no-prompt", "deploy", "--all")
        try:
            with started.worker("headrace"):
                yield started
        finally:
            managed.down()


def a_stream_and_an_old_log(server: Server) -> None:
    """What the deployments of the log read, under the names that their parameters have."""
    (server.folder / "data/outputs").mkdir(parents=True)
    server.command("sot", "gen", "data/outputs/engine.sot", "--records", "2000")
    # The old log has one chain over everything, as that of one symbol is.
    server.command("sot", "gen", "data/before.sot", "--records", "200", "--symbols", "1")
    old = "data/engine_output_log.sqlite"
    write = ("--action", "write", "--source", "data/before.sot", "--store", "data/other")
    OldLog(server.folder / old, create=True)
    server.command("sot", "migrate", old, *write)


def test_everything_is_deployed_as_the_file_says(server: Server) -> None:
    found = server.ask("POST", "/deployments/filter", {"limit": 200})
    assert sorted((each["entrypoint"], each["name"]) for each in found) == sorted(
        (each.entrypoint, each.name) for each in PLAN.deployments
    )
    assert {each["work_pool_name"] for each in found} == {"headrace"}
    assert {
        each["entrypoint"]: each["concurrency_options"]["collision_strategy"] for each in found
    } == {each.entrypoint: each.concurrency_limit.collision_strategy for each in PLAN.deployments}


@pytest.mark.parametrize("planned", PLAN.deployments, ids=lambda planned: planned.entrypoint)
def test_each_runs_once(server: Server, planned) -> None:
    """In the order of the file, in which each finds what it needs."""
    flow = planned.function.replace("_", "-")
    run = server.ended(server.start(f"{flow}/{planned.name}"), 180)
    assert run["state_type"] == "COMPLETED", run["state"]
    if left := LEAVES.get(planned.function):
        assert list(server.folder.glob(left)), left
