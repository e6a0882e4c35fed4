"""The supervisor starts what ended, ends what is left, and ends itself when it is not known."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.deployments import supervisor as module
from headrace.cli.deployments.supervisor import Supervisor
from headrace.cli.server.process import TOKEN_VARIABLE
from headrace.cli.server.state import DEPLOYMENTS, ProcessRecord, StateFolder, read_note

TOKEN = "0123456789abcdef-of-a-test"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateFolder:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    monkeypatch.setattr(module, "_LOOK_EVERY_S", 0.1)
    folder = StateFolder(tmp_path)
    folder.write_record(ProcessRecord(name=DEPLOYMENTS, pid=1, token=TOKEN, started_at=0.0))
    return folder


@pytest.fixture
def started(folder: StateFolder, tmp_path: Path) -> Iterator[object]:
    """Start a supervisor over a script that notes each of its starts; end it afterwards."""
    under_way: list[tuple[Supervisor, threading.Thread]] = []

    def start(script: str) -> tuple[Supervisor, threading.Thread]:
        lines = f"open({str(tmp_path / 'starts')!r}, 'a').write('x'); {script}"
        supervisor = Supervisor(folder, TOKEN, [sys.executable, "-S", "-c", lines])
        thread = threading.Thread(target=supervisor.run)
        thread.start()
        under_way.append((supervisor, thread))
        return supervisor, thread

    yield start
    for supervisor, thread in under_way:
        supervisor.end()
        thread.join(30)
        assert not thread.is_alive()


def starts(folder: Path) -> int:
    path = folder / "starts"
    return len(path.read_text()) if path.exists() else 0


def wait_for(true, timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_ended_is_started_again_and_counted(started, folder, tmp_path) -> None:
    started("raise SystemExit(1)")
    wait_for(lambda: starts(tmp_path) >= 2)
    note = read_note(folder, TOKEN)
    assert note is not None
    assert note.restarts >= 1
    assert note.deployments == []


def test_an_end_reaches_the_runner(started, tmp_path) -> None:
    supervisor, thread = started("import time; time.sleep(60)")
    wait_for(lambda: starts(tmp_path) == 1)
    supervisor.end()
    thread.join(10)
    assert not thread.is_alive()
    assert starts(tmp_path) == 1


def test_who_is_not_known_any_more_ends(started, folder, tmp_path) -> None:
    _, thread = started("import time; time.sleep(60)")
    wait_for(lambda: starts(tmp_path) == 1)
    folder.remove_record(DEPLOYMENTS)
    thread.join(10)
    assert not thread.is_alive()
