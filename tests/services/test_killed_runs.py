"""A command that was killed: what Prefect shows of its run, and the alarm about it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.server import ManagedServer
from headrace.sim import SimulatedExchange
from tests.support.receivers import Hook, receiving
from tests.support.served import BIN, Server, clean_environment, served, wait_until

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]

LIST = """
deployments:
  - name: by-hand
    entrypoint: flows/ingest.py:ingest
    description: What is new.
    parameters: {products: [BTC-USD]}
"""


@pytest.fixture
def slow() -> Iterator[SimulatedExchange]:
    """An exchange of which a backfill is long enough to be killed."""
    with SimulatedExchange("BTC-USD:26400", seed=4, latency="constant:s=1") as exchange:
        yield exchange


@contextmanager
def at_work(server: Server) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A backfill at the command line that is under way, and the id of its run."""
    before = {each["id"] for each in runs(server)}
    command = subprocess.Popen(
        [str(BIN / "headrace"), "backfill", "BTC-USD", "--chunk-concurrency", "1"],
        cwd=server.folder,
        env=server.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        [run_id] = wait_until(
            lambda: {each["id"] for each in runs(server)} - before, 120, "the run"
        )
        wait_until(lambda: standing(server) == ("held", run_id), 60, "its lease")
        yield command, run_id
    finally:
        command.kill()
        command.wait()


def runs(server: Server) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.ask("POST", "/flow_runs/filter", {})
    return found


def standing(server: Server) -> tuple[str, str]:
    """The standing of the backfill's lease, and the run that holds it."""
    leases = json.loads(server.command("lease", "list", "--json").stdout)["leases"]
    for each in leases:
        if each["name"].endswith(":backfill") and each["holder"]:
            return each["standing"], each["holder"]["run_id"]
    return "free", ""


def test_what_up_serves_notices_a_killed_command_and_an_alarm_comes(
    tmp_path: Path, slow: SimulatedExchange
) -> None:
    (tmp_path / "prefect.yaml").write_text(LIST)
    with receiving(Hook()) as hook, served(tmp_path, slow) as server:
        server.up("--deployments", "prefect.yaml")
        server.command("alarms", "webhook", "ops", hook.url)
        server.command("alarms", "install", "--to", "webhook/ops", "--on")
        with at_work(server) as (command, run_id):
            command.kill()
            command.wait()
            assert server.ended(run_id, 60)["state_type"] == "CRASHED"
            [alarm] = wait_until(lambda: hook.received, 60, "the alarm")
    assert (alarm["alarm"], alarm["run"]["id"]) == ("run-failed", run_id)
    assert "The process that ran it is gone" in alarm["text"]


def test_the_next_run_says_so_of_a_killed_one_and_of_no_frozen_one(
    tmp_path: Path, slow: SimulatedExchange
) -> None:
    """Nothing serves deployments here."""
    environment = clean_environment(
        HEADRACE_HOME=str(tmp_path / "home"),
        PREFECT_HOME=str(tmp_path / "prefect-home"),
        HEADRACE_COINBASE_URL=slow.url,
        HEADRACE_RATE="none",
        HEADRACE_LEASE_TTL_S="5",
    )
    managed = ManagedServer(tmp_path / "home")
    server = Server(tmp_path, environment, managed.up().api_url)
    try:
        with at_work(server) as (frozen, frozen_id):
            os.kill(frozen.pid, signal.SIGSTOP)
            wait_until(lambda: standing(server)[0] == "expired", 30, "the end of its lease")
            with at_work(server) as (killed, killed_id):
                assert server.run(frozen_id)["state_type"] == "RUNNING"
                killed.kill()
                killed.wait()
                assert server.run(killed_id)["state_type"] == "RUNNING"
                server.command("backfill", "BTC-USD", "--last", "1m")
                assert server.run(killed_id)["state_type"] == "CRASHED"
                assert server.run(frozen_id)["state_type"] == "RUNNING"
    finally:
        managed.down()
