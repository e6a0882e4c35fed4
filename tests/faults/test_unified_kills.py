"""A reader of the unified table, while it is written: by processes that are killed, by many."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest
from support.unified import put, raw_rows, table_rows

from headrace.lake import Lake, RawLake
from headrace.unified.table import Snapshot, quarantine_table, unified_table
from headrace.unified.transformer import Transformer
from tests.services_fixtures import BUCKET, seaweed_url
from tests.unified_writer import PRODUCT, open_here

__all__ = ["seaweed_url"]

WRITER = Path(__file__).parents[1] / "unified_writer.py"
PART_IDS = 1_000
#: Where a transform can die, and on which pass.
POINTS = [
    "after-quarantine-commit:1",
    "before-unified-file:1",
    "before-unified-file:3",
    "after-unified-file:2",
    "after-unified-commit:1",
    "after-unified-commit:2",
    "before-unified-file:4",
]


class Source:
    """The raw layer under the table: it grows, and some of its parts change.

    Every row of a part has the part's version as its price, and the last row of every fourth part
    does not fit the table's columns.
    """

    def __init__(self, raw: RawLake) -> None:
        self._raw = raw
        self.versions: list[int] = []

    def grow(self, parts: int) -> None:
        for _ in range(parts):
            self.versions.append(1)
            self._store(len(self.versions) - 1)

    def change(self, part: int) -> None:
        self.versions[part] += 1
        self._store(part)

    def _store(self, part: int) -> None:
        lo = part * PART_IDS + 1
        rows = [{"trade_id": lo + n, "price": str(self.versions[part])} for n in range(PART_IDS)]
        if part % 4 == 3:
            rows[-1]["size"] = "1" * 40
        put(self._raw, lo, lo + PART_IDS - 1, raw_rows(*rows))

    def expected(self, part: int) -> int:
        """Rows of a part that fit."""
        return PART_IDS - (part % 4 == 3)


class Reader(threading.Thread):
    """Opens the table again and again, and holds every version of it against what may be."""

    def __init__(self, lake: Lake, source: Source) -> None:
        super().__init__(name="reader", daemon=True)
        self._table = unified_table(lake)
        self._source = source
        self._over = threading.Event()
        self._parts = 0
        self.looks = 0
        self.versions: set[int] = set()
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._over.is_set():
                self._look()
        except BaseException as problem:  # noqa: BLE001 - the test raises it
            self.problem = problem

    def close(self) -> None:
        self._over.set()
        self.join(timeout=60)
        assert not self.is_alive()
        if self.problem is not None:
            raise self.problem

    def _look(self) -> None:
        if not self._table.exists():
            self._over.wait(0.05)
            return
        newest = self._table.snapshot()
        # Also those that came and went between two looks.
        for version in range(max(self.versions, default=-1) + 1, newest.version):
            self._check(self._table.snapshot(version))
        self._check(newest)
        self.looks += 1

    def _check(self, snapshot: Snapshot) -> None:
        rows = snapshot.dataset().to_table(columns=["trade_id", "price"])
        ids = rows["trade_id"].to_pylist()
        assert len(ids) == len(set(ids)), f"version {snapshot.version}: trades twice"
        seen: dict[int, Counter[int]] = {}
        for trade_id, price in zip(ids, rows["price"].to_pylist(), strict=True):
            seen.setdefault((trade_id - 1) // PART_IDS, Counter())[int(price)] += 1
        assert sorted(seen) == list(range(len(seen))), f"version {snapshot.version}: parts missing"
        assert len(seen) >= self._parts, f"version {snapshot.version}: parts are gone"
        for part, versions in seen.items():
            (version,) = versions
            assert versions[version] == self._source.expected(part), (snapshot.version, part)
            assert version <= self._source.versions[part]
        self._parts = len(seen)
        self.versions.add(snapshot.version)


class Target:
    """A lake in a place that processes of their own reach."""

    def __init__(self, location: str, endpoint: str | None = None) -> None:
        self._place = [location, endpoint] if endpoint else [location]
        self.lake = open_here(*self._place)

    def start(self, work: str = "transform", kill_at: str = "") -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(WRITER), work, *self._place],
            env={**os.environ, "HEADRACE_KILL_AT": kill_at},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture(params=["local", pytest.param("seaweed", marks=pytest.mark.services)])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    if request.param == "local":
        return Target(str(tmp_path / "lake"))
    url = request.getfixturevalue("seaweed_url")
    return Target(f"s3://{BUCKET}/unified/{uuid4().hex}", url)


@pytest.mark.long
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("runs", [7, pytest.param(50, marks=pytest.mark.slow)])
def test_a_reader_sees_whole_versions_only(target: Target, runs: int) -> None:
    source = Source(target.lake.raw("coinbase"))
    reader = Reader(target.lake, source)
    dice = random.Random(16)
    killed = 0
    reader.start()
    try:
        for run in range(runs):
            source.grow(dice.randrange(2, 6))
            if run % 3 == 2:
                source.change(dice.randrange(len(source.versions)))
            at_random = run % 2 == 1 and runs > len(POINTS)
            process = target.start(kill_at="" if at_random else POINTS[run % len(POINTS)])
            if at_random:
                assert process.stdout is not None
                assert process.stdout.readline() == "under way\n"
                threading.Event().wait(dice.uniform(0.0, 1.5))
                process.kill()
            _, errors = process.communicate(timeout=200)
            assert "Traceback" not in errors, errors
            assert process.returncode in (0, -signal.SIGKILL), errors
            killed += process.returncode != 0
            assert reader.is_alive(), reader.problem
        last = target.start()
        _, errors = last.communicate(timeout=200)
        assert last.returncode == 0, errors
    finally:
        reader.close()
    assert killed > runs // 3
    assert reader.looks > runs
    assert reader.versions == set(range(max(reader.versions) + 1))
    check_all_is_there(target, source)


@pytest.mark.long
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("rounds", [2, pytest.param(12, marks=pytest.mark.slow)])
def test_transforms_a_compaction_and_a_rebuild_at_once(target: Target, rounds: int) -> None:
    """The raw layer changes under them, and each commits while the others plan."""
    source = Source(target.lake.raw("coinbase"))
    reader = Reader(target.lake, source)
    dice = random.Random(7)
    reader.start()
    try:
        for _ in range(rounds):
            source.grow(dice.randrange(3, 8))
            beside = [
                target.start(work) for work in ("transform", "compact", "rebuild", "transform")
            ]
            source.change(dice.randrange(len(source.versions)))
            source.grow(1)
            for process in beside:
                _, errors = process.communicate(timeout=300)
                assert process.returncode == 0, errors
            assert reader.is_alive(), reader.problem
        last = target.start()
        _, errors = last.communicate(timeout=200)
        assert last.returncode == 0, errors
    finally:
        reader.close()
    assert reader.versions == set(range(max(reader.versions) + 1))
    check_all_is_there(target, source)


def check_all_is_there(target: Target, source: Source) -> None:
    expected = [
        (part * PART_IDS + 1 + n, source.versions[part])
        for part in range(len(source.versions))
        for n in range(source.expected(part))
    ]
    assert [(row[0], int(row[2])) for row in table_rows(target.lake)] == expected
    aside = quarantine_table(target.lake).snapshot().dataset().to_table()
    misfits = [(n + 1) * PART_IDS for n in range(len(source.versions)) if n % 4 == 3]
    assert sorted(aside["trade_id"].to_pylist()) == misfits
    assert Transformer(target.lake, "coinbase").take(PRODUCT).change is None
