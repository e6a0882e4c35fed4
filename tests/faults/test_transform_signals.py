"""Ctrl-C in a transform, as a terminal sends it: to every process of the command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.server import RunningServer
from headrace.lake import open_lake
from tests.lake_samples import trades
from tests.support.prefect_server import headrace_home, prefect_server
from tests.support.processes import wait_until
from tests.support.unified import data_files, put, table_rows

__all__ = ["headrace_home", "prefect_server"]

pytestmark = [pytest.mark.flows, pytest.mark.services, pytest.mark.timeout(300)]

PRODUCTS = [f"P{n}-USD" for n in range(12)]
ROWS = 60_000
COMMAND = (sys.executable, "-m", "flows.transform")


def lives(group: int) -> bool:
    """Whether any process of the group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("runner", ["threads", pytest.param("dask", marks=pytest.mark.slow)])
def test_ctrl_c_keeps_what_was_committed_and_leaves_no_process(
    tmp_path: Path, headrace_home: Path, prefect_server: RunningServer, runner: str
) -> None:
    lake = open_lake(tmp_path / "lake")
    rows = trades(range(1, ROWS + 1))
    for product in PRODUCTS:
        put(lake.raw("coinbase"), 1, 128_000, rows, product=product)
    process = subprocess.Popen(
        [*COMMAND, "--lake", lake.location, "--workers=1", f"--runner={runner}"],
        env={**os.environ, "HEADRACE_HOME": str(headrace_home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    wait_until(lambda: bool(data_files(lake)), process)
    os.killpg(process.pid, signal.SIGINT)

    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "stopped on request" in said
    assert "Traceback" not in said
    wait_until(lambda: not lives(process.pid))
    counts = {len(table_rows(lake, product)) for product in PRODUCTS}
    assert 0 in counts
    assert counts <= {0, ROWS}
