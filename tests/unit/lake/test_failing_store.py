"""The seams for trouble: kill points and the store that fails on demand."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import ConfigurationError
from headrace.kill_points import KILL_POINTS, KillSwitch, kill_point
from headrace.lake import RawLake
from headrace.lake.exceptions import StoreDenied, StoreUnavailable
from headrace.lake.failing_store import Action, Fault, FaultyStore, denied, unavailable
from headrace.lake.grid import Grid
from headrace.lake.local import LocalStore
from tests.lake_samples import FETCHED_AT, SOURCE, trades


def test_a_switch_counts_the_passes_of_its_point() -> None:
    switch = KillSwitch.parse("after-part:3")

    passes = [switch.passed(point) for point in ["after-part", "after-fetch", "after-part"]]

    assert passes == [False, False, False]
    assert switch.passed("after-part")
    assert not switch.passed("after-part")


@pytest.mark.parametrize("point", KILL_POINTS)
def test_without_a_number_the_first_pass_counts(point: str) -> None:
    assert KillSwitch.parse(point).passed(point)


@pytest.mark.parametrize("text", ["nowhere", "after-part:0", "after-part:x", "after-part:-1", ":1"])
def test_a_switch_that_cannot_be_meant(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        KillSwitch.parse(text)
    assert repr(text) in str(caught.value)


def test_without_the_variable_nothing_happens() -> None:
    kill_point("after-part")


@pytest.fixture
def store(tmp_path: Path) -> FaultyStore:
    return FaultyStore(LocalStore(tmp_path))


def test_faults_come_in_turn_and_run_out(store: FaultyStore) -> None:
    store.script("put", Fault(unavailable, times=2))
    store.script("put", Fault(denied))

    for expected in (StoreUnavailable, StoreUnavailable, StoreDenied):
        with pytest.raises(expected):
            store.put("a/x", b"1")
    store.put("a/x", b"1")

    assert store.get("a/x") == b"1"
    assert store.calls == [("put", "a/x")] * 4 + [("get", "a/x")]


def test_a_fault_may_be_for_some_keys_and_for_ever(store: FaultyStore) -> None:
    store.script("delete", Fault(denied, times=None, key="part-"))
    store.put("a/other", b"1")
    store.delete("a/other")

    for _ in range(3):
        with pytest.raises(StoreDenied, match="a/part-1"):
            store.delete("a/part-1")
    store.heal()
    store.delete("a/part-1")


@pytest.mark.parametrize("action", ["entries", "get", "put_if_absent", "delete"])
@pytest.mark.parametrize("stored", [False, True])
def test_a_merge_that_fails_anywhere_loses_nothing(
    store: FaultyStore, action: Action, stored: bool
) -> None:
    raw = RawLake(store, "coinbase", Grid(1))
    for lo in (1, 501):
        rows = trades(range(lo, lo + 500))
        raw.write("A", lo, lo + 499, rows, source=SOURCE, fetched_at=FETCHED_AT)
    store.script(action, Fault(stored=stored))

    with pytest.raises(StoreUnavailable):
        raw.merge_due("A")

    assert raw.read("A").equals(trades(range(1, 1_001)))
    raw.sweep("A")
    raw.merge_due("A")
    assert [(part.lo, part.hi) for part in raw.parts("A").parts] == [(1, 1_000)]
    assert raw.parts("A").hidden == ()
    assert raw.read("A").equals(trades(range(1, 1_001)))


def test_a_lost_answer_is_no_lost_part(store: FaultyStore) -> None:
    raw = RawLake(store, "coinbase", Grid(1))
    rows = trades(range(1, 101))
    store.script("put_if_absent", Fault(stored=True))

    with pytest.raises(StoreUnavailable):
        raw.write("A", 1, 100, rows, source=SOURCE, fetched_at=FETCHED_AT)
    again = raw.write("A", 1, 100, rows, source=SOURCE, fetched_at=FETCHED_AT)

    assert not again.written
    assert raw.read("A").equals(rows)
