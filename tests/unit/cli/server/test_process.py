"""Named processes: found again, distinguished from others, ended with all they started."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from headrace.cli.deployments.serving import ServingFailed, wait_until_served
from headrace.cli.server import ManagedServer, NamedProcess, StateFolder, StateFolderError
from headrace.cli.server.process import TOKEN_VARIABLE
from headrace.cli.server.state import DEPLOYMENTS, ServingNote, write_note
from headrace.cli.server.status import server_status
from tests.support.processes import wait_until
from tests.support.stopped import stop

SLEEP = [sys.executable, "-S", "-c", "import time; print('ready', flush=True); time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-S",
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('ready', flush=True); time.sleep(60)",
]
PARENT = [
    sys.executable,
    "-S",
    "-c",
    "import subprocess, sys, time;"
    "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)'],"
    " start_new_session=True);"
    "print('ready', child.pid, flush=True); time.sleep(60)",
]

Start = Callable[[list[str]], NamedProcess]


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    return StateFolder(tmp_path)


@pytest.fixture
def start(folder: StateFolder) -> Iterator[Start]:
    process = NamedProcess(folder, "sleeper")

    def start_and_wait(command: list[str]) -> NamedProcess:
        process.start(command, environment=dict(os.environ))
        deadline = time.monotonic() + 20
        while "ready" not in "".join(folder.last_lines("sleeper")):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return process

    yield start_and_wait
    process.stop(grace_s=0)


def pid_of(process: NamedProcess) -> int:
    record = process.running()
    assert record is not None
    return record.pid


def test_it_is_found_again_by_who_knows_the_folder(start: Start, folder: StateFolder) -> None:
    pid = pid_of(start(SLEEP))
    assert pid_of(NamedProcess(folder, "sleeper")) == pid


def test_it_ends_and_is_forgotten(start: Start, folder: StateFolder) -> None:
    process = start(SLEEP)
    pid = pid_of(process)
    assert process.stop()
    assert not psutil.pid_exists(pid)
    assert folder.record_names() == []
    assert not process.stop()


def test_a_dead_process_is_not_running(start: Start) -> None:
    process = start(SLEEP)
    os.kill(pid_of(process), signal.SIGKILL)
    deadline = time.monotonic() + 20
    while process.running() is not None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not process.stop()


def test_a_recycled_pid_is_neither_ours_nor_hurt(start: Start, folder: StateFolder) -> None:
    process = start(SLEEP)
    with subprocess.Popen(SLEEP, stdout=subprocess.PIPE) as stranger:
        record = folder.read_record("sleeper")
        assert record is not None
        folder.write_record(msgspec.structs.replace(record, pid=stranger.pid))
        assert process.running() is None
        process.stop()
        assert stranger.poll() is None
        stranger.kill()


def test_a_note_from_before_a_restart_of_the_machine_is_harmless(folder: StateFolder) -> None:
    folder.record_path("sleeper").write_text(
        '{"name": "sleeper", "pid": 1, "token": "0", "started_at": 0}'
    )
    process = NamedProcess(folder, "sleeper")
    assert process.running() is None
    assert not process.stop()


@pytest.mark.parametrize("content", [b"", b"{", b"\x00\x00", b'{"name": "sleeper"}', b"[]"])
def test_a_damaged_note_counts_as_none(folder: StateFolder, content: bytes) -> None:
    folder.record_path("sleeper").write_bytes(content)
    assert NamedProcess(folder, "sleeper").running() is None


def lives(pid: int) -> bool:
    """False as well for an orphan that the init of this container has not yet noticed."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_what_ignores_the_polite_signal_is_killed(start: Start) -> None:
    process = start(STUBBORN)
    pid = pid_of(process)
    assert process.stop(grace_s=0.2)
    assert not psutil.pid_exists(pid)


def child_of(folder: StateFolder) -> int:
    """The child that `PARENT` names, once the line is whole."""
    wait_until(lambda: len(folder.last_lines("sleeper")[-1].split()) == 2)
    return int(folder.last_lines("sleeper")[-1].split()[1])


def test_descendants_end_too_even_in_a_session_of_their_own(
    start: Start, folder: StateFolder
) -> None:
    process = start(PARENT)
    child_pid = child_of(folder)
    assert psutil.pid_exists(child_pid)
    process.stop()
    assert not lives(child_pid)


def test_orphans_of_a_killed_process_end_too(start: Start, folder: StateFolder) -> None:
    process = start(PARENT)
    child_pid = child_of(folder)
    os.kill(pid_of(process), signal.SIGKILL)
    assert process.stop()
    assert not lives(child_pid)


def test_a_descendant_that_stops_its_family_spares_itself(
    folder: StateFolder, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start(SLEEP)
    record = process.running()
    assert record is not None
    environ = psutil.Process.environ
    monkeypatch.setattr(
        psutil.Process,
        "environ",
        lambda self: {TOKEN_VARIABLE: record.token} if self.pid == os.getpid() else environ(self),
    )
    assert process.stop()


def test_state_is_for_the_user_alone(start: Start, folder: StateFolder) -> None:
    start(SLEEP)
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert folder.record_path("sleeper").stat().st_mode & 0o777 == 0o600


def test_a_home_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateFolderError, match="HEADRACE_HOME"):
        StateFolder(tmp_path / "file")


def test_a_long_log_is_put_aside(folder: StateFolder) -> None:
    log = folder.log_path("sleeper")
    log.write_bytes(b"x" * (10 * 2**20 + 1))
    folder.turn_log("sleeper")
    assert not log.exists()
    assert log.with_suffix(".log.1").exists()


def test_the_end_of_a_log_is_shown(folder: StateFolder) -> None:
    folder.log_path("sleeper").write_text("".join(f"line {n}\n" for n in range(100_000)))
    assert folder.last_lines("sleeper", 2) == ["line 99998", "line 99999"]
    assert folder.last_lines("absent") == []


def test_a_full_disk_is_reported_and_leaves_the_old_note(
    folder: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.remember_port(4200)

    def no_space(path: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", no_space)
    with pytest.raises(StateFolderError, match="No space left"):
        folder.remember_port(4300)
    assert folder.last_port() == 4200
    assert list(folder.path.glob("*.tmp")) == []


def test_what_is_stopped_is_named(start: Start) -> None:
    process = start(SLEEP)
    assert process.stopped() == []
    pid = pid_of(process)
    stop(pid)
    assert process.stopped() == [pid]
    assert process.running() is not None
    os.kill(pid, signal.SIGCONT)
    wait_until(lambda: process.stopped() == [])


def test_deployments_that_a_stopped_process_serves_are_not_called_served(tmp_path: Path) -> None:
    server = ManagedServer(tmp_path)
    process = NamedProcess(server.folder, DEPLOYMENTS)
    record = process.start(SLEEP, environment=dict(os.environ))
    try:
        write_note(server.folder, ServingNote(token=record.token, deployments=["ingest/often"]))
        assert wait_until_served(server).deployments == ["ingest/often"]
        stop(record.pid)
        with pytest.raises(ServingFailed, match=f"`kill -CONT {record.pid}` wakes it"):
            wait_until_served(server)
        [beside] = server_status(server).beside
        assert beside.stopped == [record.pid]
    finally:
        process.stop(grace_s=0)
