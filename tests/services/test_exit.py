"""The end of a process whose Prefect API was killed under it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.services, pytest.mark.timeout(180)]

#: 40 events of which each is tried for 7 s: undisturbed, this process would end after 5 minutes.
UNDELIVERABLE = """
import os, socket
from headrace.cli.server import bounded_exit, client_environment
with socket.create_server(("127.0.0.1", 0)) as closed:
    port = closed.getsockname()[1]
os.environ.update(client_environment(port))
from prefect.events import emit_event
for n in range(40):
    emit_event("headrace.test", resource={"prefect.resource.id": f"headrace.test.{n}"})
print("work is done", flush=True)
bounded_exit(4, drain_s=1.0)
"""

WITHOUT_PREFECT = """
import sys
from headrace.cli.server import bounded_exit
print("work is done")
bounded_exit(130)
"""

KILLED_IN_MID_RUN = """
import os, signal, sys, time
from pathlib import Path
from headrace.cli.server import ManagedServer, bounded_exit, managed_api
home = Path(sys.argv[1])
code = 0
with managed_api(home):
    from prefect import flow, task
    from prefect.task_runners import ThreadPoolTaskRunner

    @task
    def chunk(n):
        time.sleep(0.02)
        return n

    @flow(task_runner=ThreadPoolTaskRunner(max_workers=5))
    def pull():
        futures = chunk.map(range(100))
        futures[20].wait()
        os.kill(ManagedServer(home).running().record.pid, signal.SIGKILL)
        done = [future.result() for future in futures]
        print("work is done:", len(done), flush=True)
        return 0

    try:
        pull()
    except Exception as error:
        print("flow:", type(error).__name__, flush=True)
        code = 4
bounded_exit(code, drain_s=1.0)
"""


def run(code: str, *arguments: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def test_undelivered_events_do_not_hold_up_the_end() -> None:
    ended = run(UNDELIVERABLE, timeout_s=60)
    assert ended.returncode == 4
    assert ended.stdout == "work is done\n"
    assert "did not take" in ended.stderr
    assert "The data is not concerned" in ended.stderr


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_it_delivers_ends_it_at_once(sign: signal.Signals) -> None:
    code = UNDELIVERABLE.replace("drain_s=1.0", "drain_s=120.0")
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "work is done\n"
        time.sleep(1)
        process.send_signal(sign)
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, "Traceback" in errors) == (130, False)


def test_an_end_without_prefect_is_just_an_end() -> None:
    ended = run(WITHOUT_PREFECT, timeout_s=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "work is done\n", "")


@pytest.mark.slow
def test_a_run_whose_server_was_killed_ends(tmp_path: Path) -> None:
    ended = run(KILLED_IN_MID_RUN, str(tmp_path), timeout_s=150)
    assert "work is done: 100" in ended.stdout
    assert ended.returncode == 4
    assert "did not take" in ended.stderr
