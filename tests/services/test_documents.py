"""The tutorial and the how-tos do what they say, command by command."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.sim import SimulatedExchange
from tests.services_fixtures import free_port
from tests.support.documents import script_of
from tests.support.served import BIN, clean_environment, processes_of

pytestmark = [pytest.mark.services, pytest.mark.timeout(400)]


def run_page(
    page: str, folder: Path, ports: Mapping[int, int] | None = None, **settings: str
) -> str:
    """Run all commands of a page in a folder; what they wrote, once none of them is left.

    Args:
        page: the name of the file in `docs`, without its ending.
        folder: where they are typed.
        ports: those of the page, and those to use instead.
        settings: variables of the environment.
    """
    home = folder / "home"
    shell = subprocess.Popen(
        ["bash", "-c", script_of(page, ports or {})],
        cwd=folder,
        env=clean_environment(
            HEADRACE_HOME=str(home), PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}", **settings
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = shell.communicate(timeout=300)
        assert shell.returncode == 0, said
        assert "Traceback" not in said, said
        assert processes_of(home) == []
        return said
    finally:
        subprocess.run(
            [BIN / "headrace", "down"], env=clean_environment(HEADRACE_HOME=str(home)), check=True
        )
        try:
            os.killpg(shell.pid, signal.SIGKILL)
        except ProcessLookupError:  # it left nothing behind
            shell.wait()


@pytest.mark.slow
def test_the_tutorial(tmp_path: Path) -> None:
    """Three minutes: it waits for runs of a schedule, as its reader does."""
    said = run_page("tutorial", tmp_path, {8080: free_port(), 8090: free_port()})
    held = [int(n.replace(",", "")) for n in re.findall(r"parts with ([\d,]+) trades", said)]
    assert len(held) == 2
    assert 20_000 <= held[0] < held[1]
    assert "exit code 1" in said
    assert '"alarm": "run-failed"' in (tmp_path / "alarms.txt").read_text()


def test_products_are_chosen(tmp_path: Path) -> None:
    listed = [f"{name}:100" for name in ("BTC-USD", "ETH-USD", "XYZ-USD", "ABC-USD", "BTC-EUR")]
    with SimulatedExchange(*listed) as exchange:
        run_page("products", tmp_path, HEADRACE_COINBASE_URL=exchange.url)
    kept = json.loads((tmp_path / "data/lake/_headrace/products-coinbase.json").read_text())
    assert [each["name"] for each in kept["sets"]] == ["majors", "usd"]
    assert [each["id"] for each in kept["products"] if each["removed"]] == ["ABC-USD"]
