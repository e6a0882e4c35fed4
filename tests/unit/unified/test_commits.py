"""Two transforms of one product: the second of two commits is refused, whatever it changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from lake_samples import trades
from support.unified import (
    PRODUCT,
    commit_all,
    data_files,
    expected_rows,
    put,
    raw_rows,
    rebuild,
    table_rows,
    transform,
)

from headrace.coverage import IntervalSet
from headrace.lake import Lake, open_lake
from headrace.unified import commits, raw_changes
from headrace.unified.exceptions import TableDamaged, TableMissing, TableTooNew
from headrace.unified.log import read_transactions
from headrace.unified.taken_ids import LAYOUT_ID, Taken, taken_products
from headrace.unified.transformer import Transformer


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return open_lake(tmp_path / "lake")


@pytest.fixture
def two(lake: Lake) -> tuple[Transformer, Transformer]:
    first, second = Transformer(lake, "coinbase"), Transformer(lake, "coinbase")
    put(first.raw, 1, 1_000, trades(range(1, 1_001)))
    first.tables.make()
    return first, second


def test_the_second_of_two_that_took_the_same_starts_over(
    two: tuple[Transformer, Transformer], lake: Lake
) -> None:
    changes = [transformer.take(PRODUCT).change for transformer in two]
    assert None not in changes
    assert two[0].tables.commit(changes[:1], "transform") == []
    assert two[1].tables.commit(changes[1:], "transform") == changes[1:]
    assert len(data_files(lake)) == 1, "the file of the second is still there"
    again = two[1].take(PRODUCT)
    assert again.change is None
    assert table_rows(lake) == expected_rows(two[0].raw)


def test_delta_itself_refuses_a_commit_that_another_overtook(
    two: tuple[Transformer, Transformer], lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other commit comes after the look at the table's state and before the own commit."""
    changes = [transformer.take(PRODUCT).change for transformer in two]
    committed = commits._committed
    raced: list[bool] = []

    def overtaken(*arguments: object) -> bool:
        if not raced:
            raced.append(True)
            assert two[0].tables.commit(changes[:1], "transform") == []
        return committed(*arguments)

    monkeypatch.setattr(commits, "_committed", overtaken)
    assert two[1].tables.commit(changes[1:], "transform") == changes[1:]
    assert table_rows(lake) == expected_rows(two[0].raw)


def test_other_products_do_not_disturb(two: tuple[Transformer, Transformer], lake: Lake) -> None:
    put(two[0].raw, 1, 1_000, trades(range(1, 1_001)), product="ETH-USD")
    changes = [two[0].take(PRODUCT).change, two[1].take("ETH-USD").change]
    for transformer, change in zip(two, changes, strict=True):
        assert transformer.tables.commit([change], "transform") == []
    assert table_rows(lake, "ETH-USD") == expected_rows(two[0].raw, "ETH-USD")
    assert table_rows(lake) == expected_rows(two[0].raw)


def test_a_group_keeps_what_no_other_committed(
    two: tuple[Transformer, Transformer], lake: Lake
) -> None:
    put(two[0].raw, 1, 1_000, trades(range(1, 1_001)), product="ETH-USD")
    group = [two[1].take(PRODUCT).change, two[1].take("ETH-USD").change]
    transform(two[0])
    assert two[1].tables.commit(group, "transform") == group[:1]
    assert table_rows(lake, "ETH-USD") == expected_rows(two[0].raw, "ETH-USD")


def test_a_compaction_and_a_transform_of_one_product(
    two: tuple[Transformer, Transformer], lake: Lake
) -> None:
    transform(two[0])
    put(two[0].raw, 1_001, 2_000, trades(range(1_001, 2_001)))
    transform(two[0])
    compacted = two[0].compact(PRODUCT, all_months=True).change
    put(two[0].raw, 2_001, 3_000, trades(range(2_001, 3_001)))
    transform(two[1])
    assert two[0].tables.commit([compacted], "compact") == [compacted]
    again = two[0].compact(PRODUCT, all_months=True).change
    put(two[0].raw, 3_001, 4_000, trades(range(3_001, 4_001)))
    late = two[1].take(PRODUCT).change
    assert two[0].tables.commit([again], "compact") == []
    assert two[1].tables.commit([late], "transform") == [late]
    transform(two[1])
    assert table_rows(lake) == expected_rows(two[0].raw)
    assert len(two[0].tables.trades.snapshot().files()) == 2


def test_a_commit_whose_answer_was_lost_is_recognised(
    two: tuple[Transformer, Transformer], lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = two[0].take(PRODUCT).change
    committed = commits._committed

    def answer_lost(*arguments: object) -> bool:
        assert committed(*arguments)
        monkeypatch.setattr(commits, "_committed", committed)
        return False

    monkeypatch.setattr(commits, "_committed", answer_lost)
    assert two[0].tables.commit([change], "transform") == []
    assert table_rows(lake) == expected_rows(two[0].raw)


def test_misfits_are_in_the_quarantine_before_their_ids_are_taken(
    two: tuple[Transformer, Transformer], lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(two[0].raw, 1_001, 2_000, raw_rows({"trade_id": 1_001, "price": "1" * 40}))
    change = two[0].take(PRODUCT).change

    def killed(point: str) -> None:
        if point == "after-quarantine-commit":
            raise KeyboardInterrupt

    monkeypatch.setattr(commits, "kill_point", killed)
    with pytest.raises(KeyboardInterrupt):
        two[0].tables.commit([change], "transform")
    monkeypatch.undo()
    assert two[0].tables.trades.snapshot().files() == []
    assert two[0].tables.quarantine.snapshot().files()
    assert transform(two[1]).quarantined == 1
    (aside,) = two[1].tables.quarantine.snapshot().files()
    assert aside.rows == 1
    assert len(table_rows(lake)) == 1_000


def test_a_quarantine_that_was_committed_too_late_is_noticed(
    two: tuple[Transformer, Transformer], lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One read a misfit, and commits when another has taken the part as it was corrected."""
    monkeypatch.setattr(raw_changes, "_LATE_US", 0)
    put(two[0].raw, 1_001, 2_000, raw_rows({"trade_id": 1_001, "price": "1" * 40}))
    late = two[0].take(PRODUCT).change
    put(two[0].raw, 1_001, 2_000, raw_rows({"trade_id": 1_001, "price": "11"}))
    ahead = two[1].take(PRODUCT).change
    assert late is not None
    assert ahead is not None

    def overtaken(point: str) -> None:
        if point == "after-quarantine-commit":
            monkeypatch.setattr(commits, "kill_point", lambda _point: None)
            assert two[1].tables.commit([ahead], "transform") == []

    monkeypatch.setattr(commits, "kill_point", overtaken)
    assert two[0].tables.commit([late], "transform") == [late]
    assert two[0].tables.quarantine.snapshot().files() != []
    for compacting in (True, False):  # which takes nothing, and must not hide it
        assert two[1].compact(PRODUCT, all_months=compacting).change is None
    transform(two[0])
    assert two[0].tables.quarantine.snapshot().files() == []
    assert table_rows(lake) == expected_rows(two[0].raw)
    assert two[0].take(PRODUCT).change is None


def test_transactions_are_those_that_delta_knows(
    two: tuple[Transformer, Transformer], lake: Lake
) -> None:
    """Over checkpoints, which come every 20 commits."""
    transformer = two[0]
    for n in range(1, 45):
        put(
            transformer.raw,
            n * 1_000 + 1,
            (n + 1) * 1_000,
            trades(range(n * 1_000 + 1, n * 1_000 + 9)),
        )
        transform(transformer)
    table = transformer.tables.trades
    snapshot = table.snapshot()
    assert list(Path(table.uri).glob("_delta_log/*.checkpoint.parquet"))
    found = snapshot.transactions
    assert found
    assert {name: snapshot.delta.transaction_version(name) for name in found} == found
    assert Taken.of(found, "coinbase", PRODUCT).ranges == IntervalSet.of((1, 45_000))
    assert taken_products(found, "coinbase") == [PRODUCT]
    earlier = table.snapshot(7)
    assert Taken.of(earlier.transactions, "coinbase", PRODUCT).ranges == IntervalSet.of((1, 8_000))


def test_a_missing_log_entry_is_named(two: tuple[Transformer, Transformer], lake: Lake) -> None:
    transform(two[0])
    table = two[0].tables.trades
    (Path(table.uri) / "_delta_log" / f"{1:020d}.json").unlink()
    with pytest.raises(TableDamaged, match="version 1 is missing"):
        read_transactions(lake.store, f"{table.root}/_delta_log/", 1)


def test_a_newer_layout_is_refused(two: tuple[Transformer, Transformer]) -> None:
    transform(two[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commits, "LAYOUT", 2)
        put(two[0].raw, 1_001, 2_000, trades(range(1_001, 2_001)))
        transform(two[0])
    assert two[0].tables.trades.snapshot().transactions[LAYOUT_ID] == 2
    with pytest.raises(TableTooNew, match="--rebuild"):
        two[0].take(PRODUCT)


def test_rebuilding_is_one_commit(two: tuple[Transformer, Transformer], lake: Lake) -> None:
    put(two[0].raw, 1, 1_000, trades(range(1, 1_001)), product="ETH-USD")
    for product in (PRODUCT, "ETH-USD"):
        transform(two[0], product)
    before = two[0].tables.trades.snapshot()
    rebuild(two[0], PRODUCT, "ETH-USD")
    after = two[0].tables.trades.snapshot()
    assert after.version == before.version + 1
    assert not {file.path for file in after.files()} & {file.path for file in before.files()}
    for product in (PRODUCT, "ETH-USD"):
        assert table_rows(lake, product) == expected_rows(two[0].raw, product)
    assert two[0].take(PRODUCT).change is None


def test_rebuilding_leaves_out_what_the_raw_layer_no_longer_has(
    two: tuple[Transformer, Transformer], lake: Lake
) -> None:
    put(
        two[0].raw,
        1,
        1_000,
        raw_rows({"trade_id": 1}, {"trade_id": 2, "price": "1" * 40}),
        product="OLD-USD",
    )
    for product in (PRODUCT, "OLD-USD"):
        transform(two[0], product)
    changes = [two[0].rebuild(PRODUCT, fresh=False).change, *two[0].removals([PRODUCT])]
    commit_all(two[0], changes, fresh=False)
    assert table_rows(lake, "OLD-USD") == []
    assert two[0].tables.quarantine.snapshot().files() == []
    assert table_rows(lake) == expected_rows(two[0].raw)


@pytest.mark.parametrize("damage", ["cut", "newer", "missing", "no log"])
def test_tables_that_cannot_be_read_are_rebuilt(
    two: tuple[Transformer, Transformer], lake: Lake, damage: str
) -> None:
    put(two[0].raw, 1_001, 2_000, raw_rows({"trade_id": 1_001, "price": "1" * 40}))
    transform(two[0])
    entry = Path(two[0].tables.trades.uri) / "_delta_log" / f"{1:020d}.json"
    text = entry.read_text()
    if damage == "cut":
        entry.write_text(text[: len(text) // 2])
    elif damage == "newer":
        entry.write_text(text + '{"protocol":{"minReaderVersion":9,"minWriterVersion":9}}\n')
    elif damage == "missing":
        entry.with_name(f"{0:020d}.json").unlink()
    else:
        for each in entry.parent.iterdir():
            each.unlink()
    with pytest.raises((TableDamaged, TableTooNew, TableMissing)):
        two[0].take(PRODUCT)
    rebuild(two[0], PRODUCT)
    assert [row[0] for row in table_rows(lake)] == list(range(1, 1_001))
    assert two[0].tables.trades.snapshot().version == 0
    assert two[0].tables.quarantine.snapshot().files()[0].rows == 1
    if damage != "no log":
        kept = Path(lake.location, "_headrace", "aside", "unified").glob("trades-*/*.json")
        assert entry.name in {path.name for path in kept} or damage == "missing"
    assert two[0].take(PRODUCT).change is None
