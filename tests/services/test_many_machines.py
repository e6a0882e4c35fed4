"""The topology of deploy/compose.yaml as processes: up, a run through a worker, down."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from deploy.check import example_with_passwords
from deploy.local import Local
from deploy.topology import read_settings
from headrace.lake import S3Settings, open_lake
from tests.support.served import Server
from tests.support.topology import local_topology

# Nine services on two cores take a minute to come up.
pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]
TRADES = 30_000


@pytest.fixture
def local() -> Iterator[Local]:
    with local_topology() as topology:
        yield topology


def command(local: Local, *words: str) -> str:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "deploy.local", *words),
            *("--state", str(local.state), "--network", local.network),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def processes_below(folder: Path) -> list[str]:
    """Command lines of what has something open, or works, below a folder."""
    found = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), process.cwd()]
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        if any(str(folder) in word for word in words) and process.pid != os.getpid():
            found.append(" ".join(words))
    return found


def test_up_a_run_through_a_worker_down_and_nothing_is_left(local: Local) -> None:
    settings = example_with_passwords(local.state.parent)
    settings.write_text(
        settings.read_text()
        .replace("BTC-USD:200000", f"BTC-USD:{TRADES}")
        .replace("\nRATE=15/s", "\nRATE=200/s")
        .replace("SIMULATED_RATE=15/s", "SIMULATED_RATE=none")
    )
    command(local, "up", "--settings", str(settings))
    assert set(local.running()) == local.addresses.keys() - {"setup"}

    server = Server(ROOT, {}, f"http://{local.addresses['prefect']}:4200/api")
    run = server.ended(server.start("backfill/on-demand", transform=False), 240)
    assert run["state_type"] == "COMPLETED", run["state"]
    given = read_settings(settings)
    lake = open_lake(
        given["LAKE"],
        s3=S3Settings(
            endpoint_url=f"http://{local.addresses['seaweedfs']}:8333",
            region="us-east-1",
            access_key_id=given["S3_ACCESS_KEY"],
            secret_access_key=given["S3_SECRET_KEY"],
        ),
    ).raw("coinbase")
    rows = lake.read("BTC-USD", 1, TRADES).column("trade_id").to_pylist()
    assert rows == sorted(set(rows))
    assert lake.coverage("BTC-USD").contains(1, TRADES)

    command(local, "up", "--settings", str(settings))
    assert set(local.running()) == local.addresses.keys() - {"setup"}, "a second up adds nothing"
    command(local, "down")
    assert local.running() == []
    assert processes_below(local.state) == []
