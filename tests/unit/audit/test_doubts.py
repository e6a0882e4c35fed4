"""Holes that older versions recorded are named, asked for again, and believed only then."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from headrace.audit.auditor import run_audit
from headrace.audit.report import ProductAudit, Repair
from headrace.errors import HeadraceError
from headrace.lake import Part
from headrace.run.report import Status
from tests.lake_samples import FETCHED_AT, trades
from tests.support.audits import PRODUCT, Bench, kinds, only, rows
from tests.support.exchange import GivingUp

WITH_A_HOLE = [*range(1, 1_001), *range(3_001, 5_001)]


def keep_old(bench: Bench, lo: int, hi: int, ids: Iterable[int]) -> Part:
    """A part as an older version wrote it: its footer does not say that its holes are proven."""
    return bench.raw.write(
        PRODUCT,
        lo,
        hi,
        trades(ids),
        source="localhost",
        fetched_at=FETCHED_AT,
        holes_proven=False,
    ).part


def audit(bench: Bench, client: GivingUp | None = None) -> ProductAudit:
    return run_audit(bench.raw, PRODUCT, checkpoints=bench.checkpoints, client=client)


def heal(bench: Bench, client: GivingUp) -> list[Repair]:
    return bench.heal(client=client)


def exchange(ids: Iterable[int]) -> GivingUp:
    return GivingUp(ids, rows=rows)


def test_an_old_hole_is_wrong_until_it_is_proven(bench: Bench) -> None:
    part = keep_old(bench, 1, 5_000, WITH_A_HOLE)
    bench.save_checkpoint()
    client = exchange(WITH_A_HOLE)
    found = audit(bench, client)
    assert (found.status, kinds(found)) == (Status.PARTIAL, ["unproven"])
    finding = only(found, "unproven")
    assert finding.range == (1_001, 3_000)
    assert "--heal" in finding.repair
    client.cursors.clear()
    (repair,) = heal(bench, client)
    assert (repair.action.value, repair.key) == ("asked_again", part.key)
    # The two ends of the history, and one answer that shows both ends of the hole.
    assert set(client.cursors) == {None, 1_001, 3_002}
    assert client.requests == 3
    found = audit(bench, client)
    assert (found.status, kinds(found)) == (Status.DONE, ["hole"])
    assert heal(bench, client) == []


def test_trades_that_are_there_after_all_are_stored(bench: Bench) -> None:
    keep_old(bench, 1, 5_000, WITH_A_HOLE)
    bench.save_checkpoint()
    client = exchange(range(1, 5_001))
    repairs = heal(bench, client)
    assert [repair.action.value for repair in repairs] == ["asked_again", "checkpoint_rebuilt"]
    assert "2,000 trades were there" in repairs[0].message
    assert bench.ids() == list(range(1, 5_001))
    assert audit(bench, client).status is Status.DONE


def test_a_history_that_begins_earlier_than_was_believed_is_missing_then(bench: Bench) -> None:
    cell = bench.raw.grid.cell_ids
    keep_old(bench, 1, 2 * cell, [])
    bench.keep(2 * cell + 1, 2 * cell + 3_000)
    bench.save_checkpoint()
    client = exchange([700, *range(2 * cell + 1, 2 * cell + 3_001)])
    assert heal(bench, client)[0].action.value == "set_aside"
    found = audit(bench, client)
    assert found.counted.missing.ranges == ((1, 2 * cell),)


def test_a_late_beginning_is_proven_again(bench: Bench) -> None:
    cell = bench.raw.grid.cell_ids
    keep_old(bench, 1, cell, [])
    bench.keep(cell + 1, cell + 3_000)
    bench.save_checkpoint()
    client = exchange(range(cell + 1, cell + 3_001))
    assert [repair.action.value for repair in heal(bench, client)] == ["asked_again"]
    assert audit(bench, client).status is Status.DONE


def test_a_thin_part_is_asked_for_as_a_whole(bench: Bench) -> None:
    ids = range(1, 5_000, 1_100)
    keep_old(bench, 1, ids[-1], ids)
    bench.save_checkpoint()
    client = exchange(ids)
    assert len(heal(bench, client)) == 1
    assert client.requests <= 6
    assert audit(bench, client).status is Status.DONE


def test_an_exchange_that_does_not_answer_leaves_the_doubt(bench: Bench) -> None:
    keep_old(bench, 1, 5_000, WITH_A_HOLE)
    bench.save_checkpoint()
    before = dict.fromkeys(bench.names())
    with pytest.raises(HeadraceError):
        heal(bench, exchange([]))
    assert dict.fromkeys(bench.names()) == before
    assert kinds(audit(bench)) == ["unproven"]


def test_a_merge_of_old_parts_stays_in_doubt(bench: Bench) -> None:
    old = keep_old(bench, 1, 2_000, range(1, 1_401))
    new = bench.keep(2_001, 4_000, range(2_601, 4_001))
    merged = bench.raw.merge(PRODUCT, [old, new])
    assert merged.footer.unproven_holes == ((1_401, 2_600),)


def test_a_merge_of_an_old_part_without_holes_does_not(bench: Bench) -> None:
    old = keep_old(bench, 1, 2_000, range(1, 2_001))
    new = bench.keep(2_001, 5_000, range(4_001, 5_001))
    assert bench.raw.merge(PRODUCT, [old, new]).footer.unproven_holes == ()
