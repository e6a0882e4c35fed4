"""The tutorial does what it says, command by command."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.services_fixtures import free_port
from tests.support.documents import script_of
from tests.support.served import BIN, clean_environment, processes_of

# Three minutes: it waits for runs of a schedule, as its reader does.
pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(400)]


def run_page(page: str, folder: Path, **ports: str) -> str:
    """Run all commands of a page in a folder; what they wrote, once none of them is left."""
    home = folder / "home"
    shell = subprocess.Popen(
        ["bash", "-c", script_of(page, **ports)],
        cwd=folder,
        env=clean_environment(
            HEADRACE_HOME=str(home), PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}"
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


def test_the_tutorial(tmp_path: Path) -> None:
    said = run_page("tutorial", tmp_path, port_8080=str(free_port()), port_8090=str(free_port()))
    held = [int(n.replace(",", "")) for n in re.findall(r"parts with ([\d,]+) trades", said)]
    assert len(held) == 2
    assert 20_000 <= held[0] < held[1]
    assert "exit code 1" in said
    assert '"alarm": "run-failed"' in (tmp_path / "alarms.txt").read_text()
