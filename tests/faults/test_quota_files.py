"""Clocks that jump, files that go away, settings that contradict: named, and never a free quota."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import StateError
from headrace.quota import (
    Gate,
    PermitTimeout,
    Phase,
    QuotaConfig,
    QuotaUnavailable,
    RatesConflict,
    open_gate,
)
from headrace.quota.clock import MonotonicClock
from headrace.quota.status import reset_quota

ROOT = Path(__file__).parents[2]
Open = Callable[..., Gate]


class OtherBoot(MonotonicClock):
    """The clock after the machine was started again."""

    def __init__(self) -> None:
        super().__init__()
        self.boot_id = "another-boot"


@pytest.fixture
def open_one(tmp_path: Path) -> Iterator[Open]:
    opened: list[Gate] = []

    def make(rates: str = "2/s", clock: Any = None, **settings: Any) -> Gate:
        config = QuotaConfig(name="q", rates=rates, **{"burst": 99, **settings})
        opened.append(open_gate(tmp_path, config, clock=clock))
        return opened[-1]

    yield make
    for gate in opened:
        gate.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "quota-q.sqlite"


def seconds_to_permit(gate: Gate) -> float:
    began = time.monotonic()
    gate.take(timeout_s=20)
    return time.monotonic() - began


def use_up(gate: Gate) -> None:
    while gate.take_now() is None:
        pass


# -- clocks -------------------------------------------------------------------------------------


def test_setting_the_wall_clock_changes_nothing(
    open_one: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = open_one("2/3s")  # longer than a busy machine holds up a test
    real = time.time
    for hours in (-1, 1):
        use_up(gate)
        monkeypatch.setattr(time, "time", lambda shift=hours: real() + 3600 * shift)
        assert 0.1 < seconds_to_permit(gate) < 8


def test_slots_from_the_future_are_dropped_with_a_warning(
    open_one: Open, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate = open_one()
    gate.take()
    ahead = time.monotonic_ns() + 3_600_000_000_000
    with sqlite3.connect(file) as connection:
        for seq in range(100, 120):
            connection.execute(
                "INSERT INTO slots VALUES (?, ?, ?, 1, ?, 1, 2, 8)", (seq, ahead, ahead, seq)
            )
    connection.close()
    with caplog.at_level(logging.WARNING):
        assert 0.5 < seconds_to_permit(gate) < 10
    assert "in the future" in caplog.text


def test_a_pause_from_the_future_is_ignored(open_one: Open, file: Path) -> None:
    gate = open_one()
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE state SET blocked_until = ?", (time.monotonic_ns() + 10**18,))
    connection.close()
    assert seconds_to_permit(gate) < 5


def test_millions_of_old_rows_make_no_process_wait(open_one: Open, file: Path) -> None:
    open_one().close()
    with sqlite3.connect(file) as connection:
        connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) "
            "INSERT INTO slots SELECT i, 1, 1, 1, i, 1, 2, 8 FROM n"
        )
    connection.close()
    gate = open_one()
    assert seconds_to_permit(gate) < 2


def test_after_a_reboot_a_window_passes_first(
    open_one: Open, caplog: pytest.LogCaptureFixture
) -> None:
    first = open_one()
    use_up(first)
    first.close()
    with caplog.at_level(logging.WARNING):
        again = open_one(clock=OtherBoot())
    assert "restarted" in caplog.text
    assert 0.8 < seconds_to_permit(again) < 5


def test_a_breaker_that_was_open_is_open_after_a_reboot(open_one: Open) -> None:
    first = open_one("none")
    for _ in range(5):
        with first.admit() as admission:
            admission.answered(500)
    first.close()
    assert open_one("none", clock=OtherBoot()).status().breaker.phase is Phase.OPEN


# -- files --------------------------------------------------------------------------------------


def test_a_damaged_file_is_set_aside_and_a_window_passes(
    open_one: Open, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    open_one().close()
    file.write_bytes(b"this is no database" * 500)
    with caplog.at_level(logging.WARNING):
        gate = open_one()
    assert "set aside" in caplog.text
    assert 0.8 < seconds_to_permit(gate) < 5
    assert len(list(file.parent.glob("quota-q.sqlite.damaged-*"))) == 1


def test_a_file_damaged_while_in_use_is_set_aside(open_one: Open, file: Path) -> None:
    gate = open_one()
    gate.take()
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    with file.open("r+b") as raw:
        raw.seek(100)
        raw.write(b"\xff" * (file.stat().st_size - 100))
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version")  # so that the gate's cache is stale
    connection.close()
    took = seconds_to_permit(gate)
    gate.take(timeout_s=20)
    assert took < 10


def test_a_file_deleted_while_in_use_gives_no_second_quota(
    open_one: Open, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate = open_one()
    use_up(gate)
    file.unlink()
    with caplog.at_level(logging.WARNING):
        assert 0.8 < seconds_to_permit(gate) < 5
    assert "deleted" in caplog.text


def test_a_file_deleted_between_runs_gives_no_second_quota(open_one: Open, file: Path) -> None:
    gate = open_one()
    use_up(gate)
    gate.close()
    for part in file.parent.glob("quota-q.sqlite*"):
        if part.suffix != ".lock":
            part.unlink()
    assert 0.8 < seconds_to_permit(open_one()) < 5


def test_a_folder_deleted_while_in_use_gives_no_second_quota(open_one: Open, file: Path) -> None:
    gate = open_one()
    use_up(gate)
    shutil.rmtree(file.parent)
    assert 0.8 < seconds_to_permit(gate) < 5


def test_two_processes_meet_again_in_a_new_file(open_one: Open, file: Path) -> None:
    one, other = open_one(), open_one()
    one.take()
    file.unlink()
    one.take(timeout_s=20)
    other.take(timeout_s=20)
    assert one.status().book.windows[0].used == 2


def test_a_newer_version_is_refused_and_left_alone(open_one: Open, file: Path) -> None:
    open_one().close()
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = file.read_bytes()
    with pytest.raises(QuotaUnavailable, match="version 99"):
        open_one()
    assert file.read_bytes() == before


def test_a_file_of_a_version_that_did_not_count_429s_is_used(open_one: Open, file: Path) -> None:
    open_one().close()
    with sqlite3.connect(file) as connection:
        connection.execute("DROP TABLE refusals")
    connection.close()
    reset_quota(file.parent, "q", bookings=False)
    with sqlite3.connect(file) as connection:
        connection.execute("DROP TABLE refusals")
    connection.close()
    gate = open_one()
    with gate.admit() as admission:
        admission.answered(429)
    assert gate.status().book.slowdown > 1


@pytest.mark.parametrize("what", ["folder", "database", "lock"])
def test_a_path_that_cannot_be_used_is_refused_and_named(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "state"
    if what == "folder":
        folder.write_text("a file")
    else:
        folder.mkdir()
        (folder / f"quota-q.sqlite{'.lock' if what == 'lock' else ''}").mkdir()
    with pytest.raises(StateError, match=f"{folder}.* point HEADRACE_HOME to a folder"):
        open_gate(folder, QuotaConfig(name="q", rates="2/s"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_refused_and_named(tmp_path: Path) -> None:
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises(StateError, match=str(tmp_path)):
            open_gate(tmp_path, QuotaConfig(name="q", rates="2/s"))
    finally:
        tmp_path.chmod(stat.S_IRWXU)


def test_a_write_that_fails_gives_no_permit(open_one: Open, file: Path) -> None:
    gate = open_one("50/s")
    gate.take()
    size = file.parent.joinpath("quota-q.sqlite-wal").stat().st_size
    script = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from headrace.quota import QuotaConfig, QuotaUnavailable, open_gate\n"
        "gate = open_gate(Path(sys.argv[1]), QuotaConfig(name='q', rates='50/s', burst=99))\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)\n"
        "try:\n"
        "    for _ in range(200): gate.take()\n"
        "except QuotaUnavailable as error: print('refused', error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(file.parent), str(size + 20_000)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.startswith("refused"), done.stdout + done.stderr
    gate.take(timeout_s=20)


# -- settings -----------------------------------------------------------------------------------


def test_other_rates_are_refused_while_the_old_ones_are_in_use(open_one: Open) -> None:
    gate = open_one("10/s")
    with pytest.raises(RatesConflict) as caught:
        open_one("15/s")
    assert "10/s" in str(caught.value)
    assert "15/s" in str(caught.value)
    assert caught.value.pids == [os.getpid()]
    gate.take()


def test_other_rates_are_taken_over_once_the_old_ones_are_not_in_use(open_one: Open) -> None:
    old = open_one("2/s")
    use_up(old)
    old.close()
    new = open_one("3/2s")
    assert new.status().book.windows[0].used == 2, "what was given before still counts"
    new.take_now()
    assert seconds_to_permit(new) > 1


def test_other_rates_are_taken_over_from_a_killed_process(open_one: Open, tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path\n"
        "from headrace.quota import QuotaConfig, open_gate\n"
        "open_gate(Path(sys.argv[1]), QuotaConfig(name='q', rates='10/s', burst=99)).take()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, check=False)
    assert open_one("15/s").status().book.windows[0].used <= 1


def test_a_refused_deadline_books_nothing(open_one: Open) -> None:
    gate = open_one("1/2s")
    gate.take()
    for _ in range(5):
        with pytest.raises(PermitTimeout):
            gate.take(timeout_s=0.5)
    assert seconds_to_permit(gate) < 2.5


def _emptied(file: Path) -> None:
    file.unlink()
    file.touch()


def _another_database(file: Path) -> None:
    file.unlink()
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE something (other)")
    connection.close()


def _renamed_over(file: Path) -> None:
    other = file.with_name("other")
    other.touch()
    other.replace(file)


@pytest.mark.parametrize("replace", [_emptied, _another_database, _renamed_over])
@pytest.mark.parametrize("in_use", [True, False])
def test_a_file_put_in_its_place_gives_no_second_quota(
    open_one: Open,
    file: Path,
    caplog: pytest.LogCaptureFixture,
    replace: Callable[[Path], None],
    in_use: bool,
) -> None:
    gate = open_one()
    use_up(gate)
    if not in_use:
        gate.close()
    replace(file)
    with caplog.at_level(logging.WARNING):
        gate = gate if in_use else open_one()
        assert seconds_to_permit(gate) > 0.9
    assert "emptied or replaced" in caplog.text


def test_a_breaker_damaged_while_in_use_is_set_aside(open_one: Open, tmp_path: Path) -> None:
    gate, other = open_one("1000/s"), open_one("1000/s")
    with gate.admit() as admission:
        admission.answered(200)
    with other.admit() as admission:  # so that the first has to read it again
        admission.answered(500)
    for part in tmp_path.glob("breaker-q.sqlite*"):
        if not part.name.endswith((".lock", "-shm")):
            with part.open("r+b") as opened:
                opened.write(os.urandom(max(8192, part.stat().st_size)))
    for _ in range(3):
        time.sleep(0.01)  # a look at the file serves for some milliseconds
        with gate.admit(timeout_s=5) as admission:
            admission.answered(200)
    assert list(tmp_path.glob("breaker-q.sqlite.damaged-*"))
    with other.admit(timeout_s=5) as admission:
        admission.answered(200)


def _folder_is_a_file(file: Path) -> None:
    shutil.rmtree(file.parent)
    file.parent.write_text("no folder")


def _loop(file: Path) -> None:
    for name in "quota-q.sqlite", "breaker-q.sqlite":
        path = file.with_name(name)
        path.unlink()
        path.symlink_to(path)


@pytest.mark.parametrize("break_it", [_folder_is_a_file, _loop])
def test_a_path_that_breaks_while_in_use_is_refused_and_named(
    tmp_path: Path, break_it: Callable[[Path], None]
) -> None:
    folder = tmp_path / "quota"
    gate = open_gate(folder, QuotaConfig(name="q", rates="10/s"))
    gate.take()
    break_it(folder / "quota-q.sqlite")
    for _ in range(2):
        with pytest.raises(QuotaUnavailable, match=r"-q\.sqlite"), gate.admit(timeout_s=5):
            pass
        with pytest.raises(QuotaUnavailable, match=r"quota-q\.sqlite"):
            gate.take(timeout_s=5)
        with pytest.raises(QuotaUnavailable, match=r"-q\.sqlite"):
            gate.status()
    gate.close()  # a run that is over does not fail for it
    with pytest.raises(QuotaUnavailable, match="closed it already"):
        gate.take()
