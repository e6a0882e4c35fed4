"""The simulated exchange as processes: the command, and a child that ends with its parent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-c", "from headrace.cli.sim import app; app()", "exchange"]


class Running:
    def __init__(self, *options: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.ready = self.process.stdout.readline()

    def end(self, signum: int) -> tuple[int, str, str]:
        self.process.send_signal(signum)
        said, complained = self.process.communicate(timeout=10)
        return self.process.returncode, said, complained


@pytest.fixture
def started() -> Iterator[list[Running]]:
    running: list[Running] = []
    yield running
    for each in running:
        each.process.kill()
        each.process.communicate()


def get(port: int, target: str) -> tuple[int, bytes]:
    wire = HTTPConnection("127.0.0.1", port, timeout=10)
    wire.request("GET", target, headers={"User-Agent": "tests"})
    answer = wire.getresponse()
    try:
        return answer.status, answer.read()
    finally:
        wire.close()


def test_the_command_says_where_it_is_and_stops_at_a_signal(started: list[Running]) -> None:
    started.append(Running("--product", "BTC-USD:2500"))
    where = started[0].ready
    assert "http://127.0.0.1:" in where
    port = int(where.split("http://127.0.0.1:")[1].split()[0])
    assert get(port, "/products/BTC-USD/trades")[0] == 200
    assert started[0].end(signal.SIGTERM) == (0, "answered 1 request (1 x 200)\n", "")


def test_the_command_takes_a_rehearsal(started: list[Running], tmp_path: Path) -> None:
    port_file = tmp_path / "port"
    config = tmp_path / "sim.json"
    config.write_text('{"products": ["ETH-USD:10"], "seed": 1, "latency": "constant:s=0.01"}')
    started.append(
        Running(
            "--config", str(config), "--product", "BTC-USD:300000", "--product",
            "DOGE-USD:5000,density=0.3", "--rate", "1/h", "--burst", "3", "--window", "100/60s",
            "--retry-after", "seconds", "--fault", "respond,status=503,calls=1",
            "--seed", "7", "--now", "2024-01-01", "--json", "--port-file", str(port_file),
        )
    )  # fmt: skip
    ready = json.loads(started[0].ready)
    assert ready["products"] == ["ETH-USD", "BTC-USD", "DOGE-USD"]
    assert ready["pid"] == started[0].process.pid
    assert ready["url"] == f"http://127.0.0.1:{ready['port']}"
    assert int(port_file.read_text()) == ready["port"]
    statuses = [get(ready["port"], "/products/BTC-USD/trades?limit=1")[0] for _ in range(4)]
    assert statuses == [503, 200, 200, 429]
    settings = json.loads(get(ready["port"], "/_sim/settings")[1])
    assert (settings["seed"], settings["now_s"]) == (7, 1_704_067_200)
    assert started[0].end(signal.SIGINT) == (0, "", "")
    assert not port_file.exists()


CHILD_OF_A_PARENT_THAT_DIES = """
import os, sys
from headrace.sim import SimulatedExchangeProcess
sim = SimulatedExchangeProcess("BTC-USD:5").__enter__()
print(sim.pid, flush=True)
sys.stdin.read()
"""


def test_a_child_does_not_outlive_a_killed_parent() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", CHILD_OF_A_PARENT_THAT_DIES],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if not Path(f"/proc/{child}").exists() or _is_zombie(child):
            return
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the child went on without its parent")


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
