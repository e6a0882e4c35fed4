"""`--spread`: child runs on what `headrace up` serves; killed, left alone by their run, stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow.dataset as ds
import pytest

from headrace.sim import SimulatedExchangeProcess
from tests.support.served import BIN, FINAL, Server, served, wait_until

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(400)]

TRADES = 600_000  # five cells of the grid


@pytest.fixture(scope="module")
def sim() -> Iterator[SimulatedExchangeProcess]:
    tape = [f"BTC-USD:{TRADES}", "ETH-USD:3000", "DOGE-USD:2000", "SOL-USD:1500"]
    with SimulatedExchangeProcess(*tape, seed=4, latency="constant:s=0.5") as exchange:
        yield exchange


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, sim: SimulatedExchangeProcess
) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("spread"), sim.url) as started:
        started.up()
        yield started


@pytest.fixture
def lake(request: pytest.FixtureRequest) -> str:
    return request.node.name


def spread(server: Server, lake: str) -> subprocess.Popen[str]:
    words = ["backfill", "BTC-USD", "--spread", "4", "--lake", lake, "--json"]
    return subprocess.Popen(
        [str(BIN / "headrace"), *words],
        cwd=server.folder,
        env=server.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def children(server: Server, lake: str, *states: str) -> dict[int, dict[str, Any]]:
    """The child runs on this lake in one of the states, by the number of their parts."""
    runs = server.ask(
        "POST", "/flow_runs/filter", {"flows": {"name": {"any_": ["pull-part"]}}, "limit": 100}
    )
    where = str(server.folder / lake)
    return {
        run["parameters"]["number"]: run
        for run in runs
        if run["parameters"]["lake"] == where and run["state_type"] in states
    }


def kill(run: dict[str, Any]) -> None:
    """SIGKILL to the process that works on a flow run."""
    for process in psutil.process_iter():
        try:
            if process.environ().get("PREFECT__FLOW_RUN_ID") == run["id"]:
                process.kill()
                return
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    raise AssertionError(f"no process works on {run['name']}")


def parts_of(server: Server, lake: str) -> list[Path]:
    return list((server.folder / lake).rglob("part-*.parquet"))


def ids_in(server: Server, lake: str) -> list[int]:
    folder = server.folder / lake / "raw/trades/exchange=coinbase/product=BTC-USD"
    return sorted(ds.dataset(folder).to_table(columns=["trade_id"])["trade_id"].to_pylist())


def check_whole(server: Server, lake: str) -> None:
    """Every trade once, and an audit that finds nothing, from names and rows."""
    assert ids_in(server, lake) == list(range(1, TRADES + 1))
    audit = json.loads(server.command("audit", "--deep", "--lake", lake, "--json").stdout)
    assert audit["status"] == "done"
    [product] = audit["products"]
    assert (product["watermark"], product["findings"]) == (TRADES, [])


def watermark(server: Server, lake: str) -> int:
    shown = server.command("checkpoint", "show", "BTC-USD", "--lake", lake, "--json").stdout
    return int(json.loads(shown)["watermark"])


def test_a_killed_child_is_started_again_once(server: Server, lake: str) -> None:
    run = spread(server, lake)
    wait_until(lambda: 2 in children(server, lake, "RUNNING"), 120, "part 2")
    wait_until(lambda: parts_of(server, lake), 60, "trades in the lake")
    kill(children(server, lake, "RUNNING")[2])
    said, errors = run.communicate(timeout=300)
    assert run.returncode == 0, errors
    summary = json.loads(said)
    [product] = summary["products"]
    assert summary["status"] == "done"
    assert (product["range"], product["new_rows"]) == ([1, TRADES], TRADES)
    assert product["watermark"] == watermark(server, lake) == TRADES
    starts = {each["number"]: each["starts"] for each in summary["parts"]}
    assert starts == {1: 1, 2: 2, 3: 1, 4: 1}
    listed = json.loads(server.command("lease", "list", "--json").stdout)["leases"]
    assert [each["name"] for each in listed if "spread" in each["name"]] == []
    assert [each["name"] for each in listed if ":backfill:" in each["name"]] == []
    check_whole(server, lake)


def test_children_of_a_killed_run_end_well(server: Server, lake: str) -> None:
    run = spread(server, lake)
    wait_until(lambda: len(children(server, lake, "RUNNING")) == 4, 120, "four children")
    wait_until(lambda: parts_of(server, lake), 60, "trades in the lake")
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()

    again = server.command(
        "backfill", "BTC-USD", "--spread", "4", "--lake", lake, "--json", check=False
    )
    assert again.returncode == 3, "its parts are still under way"
    assert "already running elsewhere" in again.stdout

    ended = wait_until(
        lambda: done(children(server, lake, *FINAL)), 180, "the end of four children"
    )
    assert {each["state_type"] for each in ended.values()} == {"COMPLETED"}
    assert watermark(server, lake) == TRADES
    check_whole(server, lake)


def done(runs: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]] | None:
    return runs if len(runs) == 4 else None


def test_a_stop_reaches_the_children(server: Server, lake: str) -> None:
    run = spread(server, lake)
    wait_until(lambda: len(children(server, lake, "RUNNING")) == 4, 120, "four children")
    wait_until(lambda: parts_of(server, lake), 60, "trades in the lake")
    run.send_signal(signal.SIGINT)
    said, errors = run.communicate(timeout=60)
    assert run.returncode == 130, errors
    assert len(json.loads(said)["parts"]) == 4
    ended = wait_until(lambda: done(children(server, lake, *FINAL)), 90, "the end of four children")
    assert "CANCELLED" in {each["state_type"] for each in ended.values()}
    before = len(ids_in(server, lake))
    assert 0 < before < TRADES
    left = json.loads(
        server.command(
            "backfill", "BTC-USD", "--lake", lake, "--json", "--chunk-concurrency", "40"
        ).stdout
    )
    assert left["products"][0]["new_rows"] == TRADES - before
    check_whole(server, lake)


def test_products_are_dealt_out(server: Server, lake: str) -> None:
    products = ["ETH-USD", "DOGE-USD", "SOL-USD"]
    said = server.command("backfill", *products, "--spread", "2", "--lake", lake, "--json").stdout
    summary = json.loads(said)
    assert [
        (each["product"], each["status"], each["new_rows"]) for each in summary["products"]
    ] == [
        ("ETH-USD", "done", 3000),
        ("DOGE-USD", "done", 2000),
        ("SOL-USD", "done", 1500),
    ]
    assert sorted(each["products"] for each in summary["parts"]) == [
        ["DOGE-USD"],
        ["ETH-USD", "SOL-USD"],
    ]
    assert summary["requests"] == sum(each["requests"] for each in summary["products"])
