"""Healing loses nothing, leaves only what a backfill can fill, and may be broken off anywhere."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
import pytest

from headrace.audit.healing import HealingRefused
from headrace.audit.parts import find_set_aside
from headrace.lake import RawLake
from headrace.lake.exceptions import StoreUnavailable
from headrace.lake.failing_store import Fault, FaultyStore
from headrace.leases import LeaseLost
from headrace.pull.exceptions import CheckpointTooNew, CheckpointUnreadable
from headrace.run.report import Status
from tests.support.audits import PRODUCT, Bench, kinds


def actions(bench: Bench, **options: object) -> list[str]:
    return [repair.action.value for repair in bench.heal(**options)]


def test_nothing_is_done_to_what_is_well(bench: Bench) -> None:
    bench.keep(1, 1_000)
    bench.save_checkpoint()
    before = bench.names()
    assert bench.heal() == []
    assert bench.names() == before


def test_an_unreadable_part_is_set_aside_and_its_range_is_missing(bench: Bench) -> None:
    bench.keep(1, 1_000)
    bad = bench.keep(1_001, 2_000)
    bench.keep(2_001, 3_000)
    bench.path(bad).write_bytes(b"half of a file")
    assert actions(bench) == ["set_aside", "checkpoint_rebuilt"]
    [key] = find_set_aside(bench.raw, PRODUCT)
    assert bench.raw.store.get(key) == b"half of a file"
    assert not key.endswith(".parquet")
    assert all(name.endswith(".parquet") for name in bench.names())
    found = bench.audit()
    assert kinds(found) == ["missing", "set_aside"]
    assert found.counted.missing.ranges == ((1_001, 2_000),)
    bench.keep(1_001, 2_000)
    bench.save_checkpoint()
    assert bench.audit().status is Status.DONE


def test_what_an_earlier_version_set_aside_among_the_parts_is_found_and_moved(
    bench: Bench,
) -> None:
    part = bench.keep(1, 1_000)
    bench.save_checkpoint()
    former = bench.path(part).with_name("_aside-part-000000001001-000000002000.parquet-1f3a9c2e")
    former.write_bytes(b"half of a file")
    assert kinds(bench.audit()) == ["set_aside"]

    bench.raw.sweep(PRODUCT)

    assert bench.names() == [str(part.name)]
    [key] = find_set_aside(bench.raw, PRODUCT)
    assert key.endswith("/part-000000001001-000000002000.parquet-1f3a9c2e")
    assert bench.raw.store.get(key) == b"half of a file"
    assert kinds(bench.audit()) == ["set_aside"]


def test_a_misnamed_part_is_set_aside(bench: Bench) -> None:
    first = bench.path(bench.keep(1, 1_000))
    shutil.copy(first, first.with_name("part-000000001001-000000002000.parquet"))
    assert actions(bench) == ["set_aside", "checkpoint_rebuilt"]
    assert bench.ids() == list(range(1, 1_001))


def test_pieces_appear_again_when_the_part_that_hid_them_is_bad(bench: Bench) -> None:
    bench.keep(1, 500)
    bad = bench.keep(1, 1_000)
    bench.path(bad).write_bytes(b"")
    bench.heal()
    assert bench.ids() == list(range(1, 501))


def test_leftovers_go_if_their_trades_are_in_the_longer_part(bench: Bench) -> None:
    bench.keep(1, 500)
    bench.keep(1, 1_000)
    assert actions(bench) == ["swept", "checkpoint_rebuilt"]
    assert bench.names() == ["part-000000000001-000000001000.parquet"]


def test_a_piece_that_differs_and_the_part_around_it_are_both_set_aside(bench: Bench) -> None:
    bench.keep(101, 200, [150])
    bench.keep(301, 400, [350])
    bench.keep(1, 1_000)
    assert actions(bench) == ["set_aside"] * 3
    assert bench.names() == []
    assert len(find_set_aside(bench.raw, PRODUCT)) == 3


def test_overlaps_with_the_same_trades_are_cut(bench: Bench) -> None:
    bench.keep(1, 1_000)
    bench.keep(501, 1_500)
    bench.keep(1_400, 2_000)
    assert actions(bench) == ["shortened", "shortened", "checkpoint_rebuilt"]
    assert bench.names() == [
        "part-000000000001-000000001000.parquet",
        "part-000000001001-000000001500.parquet",
        "part-000000001501-000000002000.parquet",
    ]
    tables = [bench.raw.read_part(part)[0] for part in bench.raw.parts(PRODUCT).parts]
    assert pa.concat_tables(tables).column("trade_id").to_pylist() == list(range(1, 2_001))
    assert bench.audit(deep=True).status is Status.DONE


def test_what_is_cut_off_begins_with_a_page(bench: Bench) -> None:
    """Else a run that fetches the page, once the part before is lost, would store it half twice."""
    bench.keep(1, 1_500)
    bench.keep(1_001, 2_700)
    bench.keep(2_501, 4_200)
    assert actions(bench) == ["shortened", "shortened", "checkpoint_rebuilt"]
    listing = bench.raw.parts(PRODUCT)
    assert [(part.lo, part.hi) for part in listing.parts] == [
        (1, 2_000),
        (2_001, 3_000),
        (3_001, 4_200),
    ]
    assert listing.hidden == listing.overlaps == ()
    assert bench.ids() == list(range(1, 4_201))
    assert bench.audit(deep=True).status is Status.DONE


@pytest.mark.parametrize("checks", range(7))
def test_a_lease_lost_as_overlaps_are_cut_costs_nothing(bench: Bench, checks: int) -> None:
    bench.keep(1, 1_500)
    bench.keep(1_001, 2_700)
    bench.keep(2_501, 4_200)
    with suppress(LeaseLost):
        bench.heal(checks=checks)
    assert bench.ids() == list(range(1, 4_201))
    bench.heal()
    assert bench.ids() == list(range(1, 4_201))
    assert kinds(bench.audit(deep=True)) == []


def test_overlaps_that_differ_are_set_aside(bench: Bench) -> None:
    bench.keep(1, 1_000)
    bench.keep(501, 1_500, range(600, 1_501))
    bench.keep(2_001, 3_000)
    assert actions(bench) == ["set_aside", "set_aside", "checkpoint_rebuilt"]
    assert bench.audit().counted.missing.ranges == ((1, 2_000),)


def test_only_a_deep_healing_sees_rows(bench: Bench) -> None:
    from headrace.lake.encoding import encode_part

    part = bench.keep(1, 1_000)
    bench.save_checkpoint()
    table, footer = bench.raw.read_part(part)
    swapped = pa.concat_tables([table.slice(1, 1), table.slice(0, 1), table.slice(2)])
    bench.raw.store.put(part.key, encode_part(swapped.combine_chunks(), footer))
    assert actions(bench) == []
    assert actions(bench, deep=True) == ["set_aside"]


def test_the_checkpoint_is_rebuilt_and_keeps_what_names_do_not_hold(bench: Bench) -> None:
    bench.keep(1, 1_000)
    bench.save_checkpoint(covered=((1, 3_000),), newest=9_000, failed=((4_001, 5_000),))
    assert actions(bench) == ["checkpoint_rebuilt"]
    made = bench.checkpoints.stored[PRODUCT]
    assert (made.covered, made.newest, made.failed) == (((1, 1_000),), 9_000, ((4_001, 5_000),))
    assert (made.fencing_token, made.rows) == (7, 1_000)


def test_a_damaged_checkpoint_is_rebuilt(bench: Bench) -> None:
    bench.keep(1, 1_000)
    bench.checkpoints.stored[PRODUCT] = CheckpointUnreadable("damaged")
    assert actions(bench) == ["checkpoint_rebuilt"]
    assert bench.audit().status is Status.DONE


def test_what_a_newer_version_wrote_is_not_touched(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.path(bench.keep(1, 1_000)).write_bytes(b"")
    bench.keep(1_001, 2_000)
    before = bench.names()
    bench.checkpoints.stored[PRODUCT] = CheckpointTooNew("here", found=9, known=1)
    with pytest.raises(CheckpointTooNew):
        bench.heal()
    del bench.checkpoints.stored[PRODUCT]
    monkeypatch.setattr("headrace.lake.encoding.FOOTER_VERSION", 0)
    with pytest.raises(HealingRefused, match="Upgrade"):
        bench.heal()
    assert bench.names() == before


@pytest.mark.parametrize("checks", range(4))
def test_a_lost_lease_stops_it_and_the_next_one_finishes(bench: Bench, checks: int) -> None:
    ailing(bench)
    with pytest.raises(LeaseLost):
        bench.heal(checks=checks)
    healed_and_whole(bench)


@pytest.mark.parametrize("changes", range(4))
def test_a_healing_that_wakes_after_its_lease_changes_nothing_more(
    bench: Bench, changes: int
) -> None:
    """As of the next change: a copy aside, a removal, a part written again."""
    ailing(bench)
    stores = FaultyStore(bench.raw.store)
    with pytest.raises(LeaseLost):
        replace(bench, raw=RawLake(stores, bench.raw.exchange, bench.raw.grid)).heal(
            changes=changes
        )
    done = [action for action, _ in stores.calls if action in ("put_if_absent", "delete")]
    assert len(done) == changes + 1, "the last one was refused"
    healed_and_whole(bench)


@pytest.mark.parametrize(
    ("action", "nth"),
    [("put_if_absent", 0), ("put_if_absent", 1), *(("delete", n) for n in range(3))],
)
@pytest.mark.parametrize("stored", [False, True])
def test_a_store_that_fails_stops_it_and_the_next_one_finishes(
    bench: Bench, action: str, nth: int, stored: bool
) -> None:
    ailing(bench)
    whole = bench.raw
    store = FaultyStore(whole.store)
    failing = FailsOnce(store, action, nth, stored)
    bench.raw = RawLake(failing, "coinbase", whole.grid)
    with suppress(StoreUnavailable):
        bench.heal()
    assert failing.failed
    bench.raw = whole
    healed_and_whole(bench)


class FailsOnce:
    """A store whose n-th call of one action fails."""

    def __init__(self, store: FaultyStore, action: str, nth: int, stored: bool) -> None:
        self._store, self._action, self._left = store, action, nth
        self._stored = stored
        self.failed = False

    def __getattr__(self, name: str) -> object:
        if name == self._action:
            if self._left == 0:
                self._store.script(name, Fault(stored=self._stored))
                self.failed = True
            self._left -= 1
        return getattr(self._store, name)


def ailing(bench: Bench) -> None:
    """Ids 1 to 2,000 are sound but untidy, 2,001 to 3,000 are damaged."""
    bench.keep(1, 500)
    bench.keep(1, 1_000)
    bench.keep(501, 1_500)
    bench.keep(1_501, 2_000)
    bench.path(bench.keep(2_001, 3_000)).write_bytes(b"x")


def healed_and_whole(bench: Bench) -> None:
    bench.heal()
    assert bench.ids() == list(range(1, 2_001))
    assert [key.rpartition("/")[2] for key in find_set_aside(bench.raw, PRODUCT)] == [
        "part-000000002001-000000003000.parquet-2d711642b726b044"
    ]
    assert bench.names() == [
        "part-000000000001-000000001000.parquet",
        "part-000000001001-000000001500.parquet",
        "part-000000001501-000000002000.parquet",
    ]
    assert kinds(bench.audit()) == ["set_aside"]
    assert bench.heal() == []
