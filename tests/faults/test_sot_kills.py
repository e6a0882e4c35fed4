"""Kills in the middle of writes to the embedded log: what was acknowledged is there, always."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.sot_streams import frames_of, made, run_of, stream_file

from headrace.sot.embedded.store import EmbeddedStore
from headrace.sot.sample_records import GeneratedRecord
from headrace.sot.verify import verify_store

WRITER = Path(__file__).parent.parent / "support" / "sot_writer.py"
SYMBOLS = 6


class Writes:
    """A stream, a store, a journal, and writers that are killed."""

    def __init__(self, folder: Path, records: int) -> None:
        self.records: list[GeneratedRecord] = made(records, symbols=SYMBOLS)
        self.stream = stream_file(folder / "stream", self.records)
        self.store = folder / "sot"
        self.journal = folder / "journal"

    def start(self, *, processes: int = 2, kill_at: str = "") -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        if kill_at:
            environment["HEADRACE_KILL_AT"] = kill_at
        return subprocess.Popen(
            [
                *(sys.executable, str(WRITER)),
                *map(str, (self.stream, self.store, self.journal, processes)),
            ],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def acknowledged(self) -> dict[int, int]:
        """Per symbol, the sequence that comes next by what was acknowledged."""
        ends: dict[int, int] = {}
        lines = self.journal.read_text().splitlines() if self.journal.exists() else []
        for line in lines:
            symbol_id, next_seq = map(int, line.split())
            ends[symbol_id] = max(ends.get(symbol_id, 0), next_seq)
        return ends

    def check(self) -> None:
        """All that was acknowledged is there, sound, and nothing else than was sent."""
        store = EmbeddedStore(self.store, create=False)
        report = verify_store(store, processes=0, mark=False)
        assert report.good, [*report.damages, *(s.damage for s in report.symbols)]
        for symbol_id, next_seq in self.acknowledged().items():
            head = store.head(symbol_id)
            assert head is not None
            assert head.position.next_seq >= next_seq, f"symbol {symbol_id} lost acknowledged rows"
        for symbol_id in store.symbols():
            assert run_of(self.records, symbol_id).startswith(frames_of(store, symbol_id))
        store.close()

    def finish(self) -> str:
        """Let a write go through; what it said."""
        process = self.start()
        said, errors = process.communicate(timeout=60)
        assert process.returncode == 0, (said, errors)
        self.check()
        store = EmbeddedStore(self.store, create=False)
        for symbol_id in range(1, SYMBOLS + 1):
            assert frames_of(store, symbol_id) == run_of(self.records, symbol_id)
        store.close()
        return said


def kill_at_random(writes: Writes, rng: random.Random) -> None:
    """Kill the whole group, or one of its processes, some time after the first acknowledgement."""
    before = writes.acknowledged()
    process = writes.start(processes=rng.choice([0, 2]))
    deadline = time.monotonic() + 20
    while (
        process.poll() is None and writes.acknowledged() == before and time.monotonic() < deadline
    ):
        time.sleep(0.002)
    time.sleep(rng.uniform(0, 0.15))
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def rounds(folder: Path, count: int, seed: int) -> None:
    rng = random.Random(seed)
    writes = Writes(folder, 30_000)
    for number in range(count):
        kill_at_random(writes, rng)
        writes.check()
        if writes.acknowledged() == dict.fromkeys(range(1, SYMBOLS + 1), 5001):
            # It came to its end: begin again, so that every kill hits a write.
            writes.finish()
            (folder / str(number)).mkdir()
            writes.store = folder / str(number) / "sot"
            writes.journal = folder / str(number) / "journal"
    writes.finish()


def test_random_kills_lose_nothing_acknowledged(tmp_path: Path) -> None:
    rounds(tmp_path, 3, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_hundred_random_kills_lose_nothing_acknowledged(tmp_path: Path) -> None:
    rounds(tmp_path, 100, seed=2)


@pytest.mark.parametrize("point", ["during-append", "before-append-sync", "after-append"])
@pytest.mark.parametrize("passes", [1, 9])
def test_a_kill_within_an_append(tmp_path: Path, point: str, passes: int) -> None:
    writes = Writes(tmp_path, 3_000)
    process = writes.start(processes=0, kill_at=f"{point}:{passes}")
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    writes.check()
    store = EmbeddedStore(writes.store, create=False)
    store.damages()
    torn = len(store.torn)
    store.close()
    assert torn == (1 if point == "during-append" else 0)
    said = writes.finish()
    assert ("repaired: cut off" in said) == (point == "during-append")
    assert len(list(writes.store.glob("*.torn-*"))) == torn
