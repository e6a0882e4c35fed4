"""Ingest by a schedule, for a long time: nothing piles up, and nothing grows."""

from __future__ import annotations

import json
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pyarrow.dataset as ds
import pytest

from headrace.sim import SimulatedExchange
from tests.support.served import FINAL, Server, processes_of, served, wait_until

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(1500)]

RUNS = 60
#: Shorter than a run takes on a busy machine: the limit of one is met, too.
INTERVAL_S = 5
PAUSE_S = 40
PLAN = f"""
name: cadence
deployments:
  - name: often
    entrypoint: flows/ingest.py:ingest
    description: A minute, compressed.
    version: "1"
    parameters: {{products: [BTC-USD]}}
    schedules: [{{slug: often, interval: {INTERVAL_S}, timezone: UTC}}]
    concurrency_limit: {{limit: 1, collision_strategy: CANCEL_NEW}}
"""


def test_sixty_runs_with_a_pause(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    with (
        SimulatedExchange("BTC-USD:3000,growth_per_s=150", seed=9) as sim,
        served(tmp_path, sim) as server,
    ):
        server.up("--deployments", "plan.yaml", "--schedules")
        wait_until(lambda: len(ended(server)) >= 15, 400, "the first runs")
        early = memory(server)
        paused = [runner(server), supervisor(server)]
        for process in paused:
            process.send_signal(signal.SIGSTOP)
        time.sleep(PAUSE_S)
        overdue = late(server)
        for process in reversed(paused):
            process.send_signal(signal.SIGCONT)
        assert len(overdue) >= PAUSE_S // INTERVAL_S - 4
        wait_until(lambda: not set(late(server)) & set(overdue), 60, "the late ones")
        wait_until(lambda: len(ended(server)) >= RUNS, 600, "all runs")
        server.ask("POST", f"/deployments/{deployment(server)['id']}/pause_deployment")
        wait_until(lambda: not acquire(server), 60, "the last run")
        grown = {name: memory(server)[name] - early[name] for name in early}
        runs = ended(server)
        assert_outcomes(runs)
        assert_few_task_runs(server, runs)
        # What grows with each run would be some hundred kilobytes times 45.
        assert grown["runner"] < 20 * 2**20, grown
        assert grown["server"] < 100 * 2**20, grown
        server.command("ingest", "BTC-USD", "--json")
        stored = ds.dataset(tmp_path / "data/lake/raw/trades").to_table(columns=["trade_id"])
        ids = sorted(stored["trade_id"].to_pylist())
        assert len(ids) == len(set(ids)) > 150 * RUNS
        assert ids[-1] - ids[0] + 1 == len(ids)
        report(server, runs, grown)


def deployment(server: Server) -> dict:
    return server.deployment("ingest/often")


def runs_of(server: Server, **query: object) -> list[dict]:
    found = server.ask(
        "POST",
        "/flow_runs/filter",
        {"flow_runs": query, "deployments": {"name": {"any_": ["often"]}}, "limit": 200},
    )
    return list(found)


def ended(server: Server) -> list[dict]:
    return runs_of(server, state={"type": {"any_": sorted(FINAL)}})


def acquire(server: Server) -> list[dict]:
    return runs_of(server, state={"type": {"any_": ["RUNNING", "PENDING", "CANCELLING"]}})


def late(server: Server) -> list[str]:
    """Runs that should have begun ten seconds ago and did not."""
    due = (datetime.now(UTC) - timedelta(seconds=10)).isoformat()
    waiting = runs_of(
        server,
        state={"type": {"any_": ["SCHEDULED"]}},
        next_scheduled_start_time={"before_": due},
    )
    return [run["id"] for run in waiting]


def assert_outcomes(runs: list[dict]) -> None:
    completed = [run for run in runs if run["state_type"] == "COMPLETED"]
    others = [run for run in runs if run["state_type"] != "COMPLETED"]
    assert len(completed) >= 15
    assert {run["state"]["message"] for run in others} <= {"Deployment concurrency limit reached."}


def assert_few_task_runs(server: Server, runs: list[dict]) -> None:
    """One for the product and one per chunk, however many trades came."""
    counts = {
        run["id"]: len(server.task_runs(run["id"]))
        for run in runs
        if run["state_type"] == "COMPLETED"
    }
    assert max(counts.values()) <= 12, counts
    per_run = sorted(counts.values())
    assert per_run[len(per_run) // 2] <= 4, counts


def named(server: Server, module: str) -> psutil.Process:
    [found] = [each for each in processes_of(server.home) if module in each.cmdline()]
    return found


def runner(server: Server) -> psutil.Process:
    return named(server, "headrace.cli.deployments.runner")


def supervisor(server: Server) -> psutil.Process:
    return named(server, "headrace.cli.deployments.supervisor")


def memory(server: Server) -> dict[str, int]:
    processes = {"runner": runner(server), "server": named(server, "headrace.cli.server.launch")}
    return {name: process.memory_info().rss for name, process in processes.items()}


def report(server: Server, runs: list[dict], grown: dict[str, int]) -> None:
    kinds = [run["state_type"] for run in runs]
    size = json.loads(server.command("status", "--json").stdout)["database_bytes"]
    print(f"{len(runs)} runs, {kinds.count('COMPLETED')} of them did the work, {grown=}, {size=}")
