"""The comparison with peers: what it measures, and that the document says what was measured."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from bench.peers import environments, table
from bench.peers.measure import Program
from bench.peers.run import JOBS, medians

#: Half a second of processor time, in a child.
BUSY = "import time\nwhile time.process_time() < 0.5: pass"
IN_A_CHILD = (
    f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}]); print('end')"
)


def program(code: str, folder: Path) -> Program:
    command = [sys.executable, "-c", code]
    return Program(command, folder / "log", cwd=folder, environment=os.environ)


def test_the_document_has_what_was_measured():
    page = table.PAGE.read_text(encoding="utf-8")
    assert table.filled(page) == page, "run `python -m bench.peers.table`"
    assert all(f"<!-- peers:{job} -->" in page for job in JOBS)


def test_the_time_of_children_counts(tmp_path):
    used = program(IN_A_CHILD, tmp_path).wait(60)
    assert used.code == 0
    assert used.cpu_s >= 0.5
    assert used.last_line == "end"


def test_memory_is_what_the_program_held_and_not_what_this_process_does(tmp_path):
    held = bytearray(os.urandom(1)) * 300_000_000
    small = program("import time; time.sleep(1)", tmp_path).wait(60)
    large = program("b = b'x' * 200_000_000; import time; time.sleep(1)", tmp_path).wait(60)
    assert len(held) // 2**20 > small.peak_mb > 0
    assert large.peak_mb - small.peak_mb == pytest.approx(191, abs=20)


def test_a_kill_ends_the_children_too(tmp_path):
    started = tmp_path / "started"
    child = f"import pathlib, time; pathlib.Path({str(started)!r}).touch(); time.sleep(60)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    used = program(parent, tmp_path).wait(60, started.exists)
    assert used.code == -9
    assert used.wall_s < 50


def test_what_takes_too_long_is_killed_and_named(tmp_path):
    with pytest.raises(TimeoutError, match="more than 1 s"):
        program("import time; time.sleep(60)", tmp_path).wait(1)


def test_of_what_was_lost_the_worst_counts():
    runs = [{"missing": lost, "wall_s": wall} for lost, wall in [(0, 1.0), (7, 2.0), (0, 9.0)]]
    assert medians(runs) == {"missing": 7, "wall_s": 2.0}


@pytest.mark.parametrize(
    "path", sorted(environments.REQUIREMENTS.glob("*.txt")), ids=lambda p: p.stem
)
def test_every_requirement_has_a_hash_and_none_names_an_index(path):
    text = path.read_text()
    assert "--index-url" not in text
    assert "://" not in text
    requirements = text.replace("\\\n", "").splitlines()
    assert all("--hash=sha256:" in line for line in requirements)
