"""The managed Prefect server, for real: started, shared, killed, found again, stopped."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from headrace.cli.server import (
    ManagedServer,
    NamedProcess,
    ProcessStartError,
    ServerElsewhereError,
    managed,
    managed_api,
)
from headrace.cli.server.address import is_healthy
from headrace.cli.server.managed import Beside
from headrace.cli.server.status import ServerStatus, server_status

pytestmark = [pytest.mark.services, pytest.mark.timeout(180)]

# A shell starts background jobs with SIGINT ignored, and children inherit that.
COMMAND = """
import signal, sys
from pathlib import Path
from headrace.cli.server import api_for_run
signal.signal(signal.SIGINT, signal.default_int_handler)
with api_for_run(Path(sys.argv[1])) as api:
    print("ready", api.origin, flush=True)
    sys.stdin.read()
"""


TASKS = """
import sys
from pathlib import Path
from headrace.cli.server import managed_api
with managed_api(Path(sys.argv[1])):
    from prefect import flow, task
    from prefect.task_runners import ThreadPoolTaskRunner

    @task
    def chunk(n):
        return n

    @flow(task_runner=ThreadPoolTaskRunner(max_workers=9))
    def pull():
        return sum(future.result() for future in chunk.map(range(200)))

    pull()
"""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test leaves its database to the others: a start on it costs 6 s, not 12."""
    return tmp_path_factory.mktemp("template") / "prefect"


@pytest.fixture
def home(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    home = tmp_path / "home"
    if template.exists():
        shutil.copytree(template, home / "prefect")
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect-client"))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    yield home
    server = ManagedServer(home)
    server.down()
    if server.folder.database.exists() and not template.exists():
        shutil.copytree(home / "prefect", template)


@contextmanager
def command(home: Path) -> Iterator[subprocess.Popen[str]]:
    """Another headrace command that uses the server until its stdin ends."""
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split()


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def answering(server: ManagedServer) -> ServerStatus:
    """Its status once the API answers in the seconds that such a look gives it."""
    looks = (server_status(server) for _ in range(20))
    return next(state for state in looks if state.answers and state.version is not None)


def lives(pid: int) -> bool:
    # An orphan stays a zombie in a container whose first process reaps nothing.
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=20) as response:
        return json.load(response)


def test_up_and_down(home: Path) -> None:
    """Two at once share one; it is known, set up as promised, restarted when killed, and ended."""
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(lambda _: ManagedServer(home).up(), range(2))
    assert first.record == second.record
    assert {first.started_now, second.started_now} == {True, False}

    server = ManagedServer(home)
    state = answering(server)
    assert state.running
    assert state.answers
    assert state.kept
    assert not state.in_use
    assert state.database_bytes > 100_000
    assert state.version is not None
    assert state.version.startswith("3.")
    with pytest.raises(ServerElsewhereError):
        server.up(port=first.port + 1)

    settings = get(f"{first.api_url}/admin/settings")["server"]
    assert settings["analytics_enabled"] is False
    assert settings["ui"]["show_promotional_content"] is False
    assert settings["api"]["host"] == "127.0.0.1"
    assert sorted(settings["services"]["db_vacuum"]["enabled"]) == ["events", "flow_runs"]
    assert settings["services"]["task_run_recorder"]["batch_size"] == 50
    with urllib.request.urlopen(first.ui_url, timeout=20) as page:
        assert b"<html" in page.read()

    os.kill(first.record.pid, signal.SIGKILL)
    wait_until(lambda: server.running() is None)
    with managed_api(home, say=lambda line: None) as api:
        assert api.origin == "up"
        assert api.api_url == first.api_url
        assert os.environ["PREFECT_API_URL"] == first.api_url
        assert server_status(server).in_use
    assert "PREFECT_API_URL" not in os.environ
    again = server.running()
    assert again is not None

    assert server.down() == ["server"]
    assert not lives(again.record.pid)
    assert not is_healthy(again.port)
    assert not server_status(server).running


@pytest.mark.slow
def test_a_server_for_one_command(home: Path) -> None:
    """It is shared by the commands that need it, outlives a killed one, and ends with the last."""
    server = ManagedServer(home)
    with command(home) as other:
        assert said(other) == ["ready", "temporary"]
        with managed_api(home, say=lambda line: None) as api:
            running = server.running()
            assert running is not None
            assert api.api_url == running.api_url
            other.kill()
            other.wait()
            # Long enough for the server to notice that one of its users is gone.
            time.sleep(4)
            assert is_healthy(running.port)
        assert not lives(running.record.pid)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["eof", "interrupt", "kill"])
def test_a_command_leaves_no_server_behind(home: Path, ending: str) -> None:
    with command(home) as other:
        assert said(other) == ["ready", "temporary"]
        running = ManagedServer(home).running()
        assert running is not None
        if ending == "eof":
            assert other.stdin is not None
            other.stdin.close()
        elif ending == "interrupt":
            other.send_signal(signal.SIGINT)
        else:
            other.kill()
        other.wait(60)
        if ending == "kill":
            # The server itself has to notice.
            wait_until(lambda: not is_healthy(running.port))
            wait_until(lambda: ManagedServer(home).running() is None)
        assert not lives(running.record.pid)


@pytest.mark.slow
def test_an_error_inside_leaves_no_server_behind(home: Path) -> None:
    context = ManagedServer(home).used()
    running = context.__enter__()
    assert lives(running.record.pid)
    error = ZeroDivisionError()
    assert not context.__exit__(ZeroDivisionError, error, None)
    assert not lives(running.record.pid)


@pytest.mark.slow
def test_a_server_that_does_not_start_says_why(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_SERVER_EVENTS_RETENTION_PERIOD", "a fortnight")
    server = ManagedServer(home)
    with pytest.raises(ProcessStartError, match="a fortnight") as caught:
        server.up()
    assert caught.value.log_path.exists()
    assert server.running() is None


@pytest.mark.slow
def test_up_turns_a_temporary_server_into_one_that_stays(home: Path) -> None:
    server = ManagedServer(home)
    with server.used() as running:
        assert server.up().record.pid == running.record.pid
    assert is_healthy(running.port)


def test_down_ends_what_runs_beside(home: Path) -> None:
    server = ManagedServer(home)
    sleeper = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
    beside = Beside("deployments", sleeper, lambda _port: dict(os.environ))
    server.up(beside=[beside])
    first = NamedProcess(server.folder, "deployments").running()
    server.up(beside=[beside])
    assert first == NamedProcess(server.folder, "deployments").running()
    assert [beside.name for beside in server_status(server).beside] == ["deployments"]
    assert server.down() == ["deployments", "server"]
    assert first is not None
    assert not lives(first.pid)
    assert NamedProcess(server.folder, "deployments").running() is None


@pytest.mark.slow
def test_what_a_command_did_is_recorded_before_its_server_ends(home: Path) -> None:
    subprocess.run([sys.executable, "-c", TASKS, str(home)], check=True, capture_output=True)
    with closing(sqlite3.connect(ManagedServer(home).folder.database)) as database:
        states = database.execute("select state_type, count(*) from task_run group by 1").fetchall()
    assert states == [("COMPLETED", 200)]


@pytest.mark.slow
def test_a_stuck_server_is_replaced(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ManagedServer(home)
    stuck = server.up()
    os.kill(stuck.record.pid, signal.SIGSTOP)
    monkeypatch.setattr(managed, "ANSWER_TIMEOUT_S", 2.0)
    replaced = server.up()
    assert replaced.record.pid != stuck.record.pid
    assert not lives(stuck.record.pid)


def test_a_server_that_has_begun_to_end_is_waited_for_and_replaced(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its last user was killed; it still answers, but not for long."""
    server = ManagedServer(home)
    context = server.used()
    ending = context.__enter__()
    server.folder.write_record(msgspec.structs.replace(ending.record, ending=True))
    with ManagedServer(home).used() as another:
        assert another.record.pid != ending.record.pid
        assert not lives(ending.record.pid)
        assert is_healthy(another.port)
    assert "stuck" not in caplog.text
    context.__exit__(None, None, None)
