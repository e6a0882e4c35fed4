"""What the raw lake promises, over every store."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from headrace.coverage import IntervalSet
from headrace.lake import Grid, Part, PartFooter, RawLake, Store, content_digest
from headrace.lake.exceptions import (
    InvalidName,
    InvalidTrades,
    MergeRefused,
    PartConflict,
    PartUnreadable,
)
from headrace.lake.grid import load_or_create_grid
from headrace.leases import LeaseLost
from headrace.trades import RAW_SCHEMA
from tests.lake_samples import EPOCH_US, FETCHED_AT, SOURCE, one_trade, trades

PRODUCT = "BTC-USD"
#: The fixed columns, but any of them may be null.
NULLABLE = pa.schema([field.with_nullable(True) for field in RAW_SCHEMA])


@pytest.fixture
def raw(store: Store) -> RawLake:
    return RawLake(store, "coinbase", Grid(cell_pages=5))


def keep(raw: RawLake, lo: int, hi: int, ids: range | list[int] | None = None) -> None:
    rows = trades(range(lo, hi + 1) if ids is None else ids)
    raw.write(PRODUCT, lo, hi, rows, source=SOURCE, fetched_at=FETCHED_AT)


def test_rows_come_back_as_they_went_in(raw: RawLake) -> None:
    keep(raw, 1, 5_000)
    keep(raw, 5_001, 7_500)

    table = raw.read(PRODUCT)

    assert table.equals(trades(range(1, 7_501)))
    assert table.schema.metadata is None
    assert raw.products() == [PRODUCT]


def test_nothing_changes_once_the_guard_refuses(raw: RawLake) -> None:
    """As for a run that wakes after its lease: no part gets a name, none is replaced or removed."""
    raw.write_empty(PRODUCT, 1, 1_000, source=SOURCE, fetched_at=FETCHED_AT)
    keep(raw, 1_001, 2_000)
    pieces = list(raw.parts(PRODUCT).parts)

    def refuse() -> None:
        raise LeaseLost("coinbase/BTC-USD", 1, "it was not renewed for 60 s")

    late = raw.under(lambda: None).under(refuse)
    for change in (
        lambda: keep(late, 2_001, 3_000),
        lambda: late.write_empty(PRODUCT, 3_001, 4_000, source=SOURCE, fetched_at=FETCHED_AT),
        lambda: late.write(
            PRODUCT,
            1_001,
            2_000,
            trades([1_500]),
            source=SOURCE,
            fetched_at=FETCHED_AT,
            replace=True,
        ),
        lambda: late.merge(PRODUCT, pieces),
        lambda: late.store.delete(pieces[0].key),
    ):
        with pytest.raises(LeaseLost):
            change()

    assert list(raw.parts(PRODUCT).parts) == pieces
    assert raw.read(PRODUCT).equals(trades(range(1_001, 2_001)))
    assert raw.store.sweep(pieces[0].key.rpartition("/")[0] + "/") == []
    keep(raw.under(lambda: None), 2_001, 3_000)
    assert raw.coverage(PRODUCT).contains(1, 3_000)


def test_a_part_is_named_by_its_range(raw: RawLake) -> None:
    receipt = raw.write(
        "btc-usd", 1, 1_000, trades(range(1, 1_001)), source=SOURCE, fetched_at=FETCHED_AT
    )

    (part,) = raw.parts(PRODUCT).parts

    assert part == receipt.part
    assert part.key == (
        "raw/trades/exchange=coinbase/product=BTC-USD/part-000000000001-000000001000.parquet"
    )


def test_the_footer_tells_everything(raw: RawLake) -> None:
    ids = [*range(11, 1_001), *range(3_001, 4_001), 4_003]
    rows = trades(ids)

    receipt = raw.write(
        PRODUCT, 1, 5_000, rows, source=[SOURCE, "b.example"], fetched_at=FETCHED_AT
    )
    footer = raw.footer(receipt.part)

    assert footer == receipt.footer
    assert (footer.lo, footer.hi, footer.rows) == (1, 5_000, len(ids))
    assert footer.content == content_digest(rows)
    assert footer.holes == 4
    assert footer.long_holes == ((1_001, 3_000),)
    assert footer.sources == (SOURCE, "b.example")
    assert footer.fetched_at == FETCHED_AT
    assert raw.verify(receipt.part) == footer


def test_the_same_again_is_nothing(raw: RawLake) -> None:
    rows = trades(range(1, 101))

    first = raw.write(PRODUCT, 1, 100, rows, source=SOURCE, fetched_at=FETCHED_AT)
    later = raw.write(PRODUCT, 1, 100, rows, source="other", fetched_at=FETCHED_AT)

    assert (first.written, later.written) == (True, False)
    assert later.footer == first.footer


def test_other_rows_under_the_same_name_are_refused_unless_meant(raw: RawLake) -> None:
    keep(raw, 1, 100)

    with pytest.raises(PartConflict, match="part-000000000001-000000000100"):
        keep(raw, 1, 100, ids=range(1, 100))
    assert raw.read(PRODUCT).num_rows == 100

    raw.write(
        PRODUCT, 1, 100, trades(range(1, 100)), source=SOURCE, fetched_at=FETCHED_AT, replace=True
    )
    assert raw.read(PRODUCT).num_rows == 99


def test_a_range_proven_empty_is_a_part_without_rows(raw: RawLake) -> None:
    raw.write_empty(PRODUCT, 1, 123_456, source=SOURCE, fetched_at=FETCHED_AT)
    keep(raw, 123_457, 123_500)

    listing = raw.parts(PRODUCT)

    assert raw.coverage(PRODUCT) == IntervalSet.of((1, 123_500))
    assert [part.rows_may_be for part in listing.parts] == [False, True]
    assert raw.read(PRODUCT, 1, 100).equals(trades([]))
    assert raw.read(PRODUCT).equals(trades(range(123_457, 123_501)))
    assert raw.totals(PRODUCT) == (44, IntervalSet.of((1, 123_456)))


def test_oldest_and_newest_trade(raw: RawLake) -> None:
    assert raw.newest(PRODUCT) is None
    assert raw.first_id(PRODUCT) is None

    raw.write_empty(PRODUCT, 1, 5_000, source=SOURCE, fetched_at=FETCHED_AT)
    assert raw.newest(PRODUCT) is None
    keep(raw, 5_001, 6_000, ids=[5_007, 5_800])
    raw.write_empty(PRODUCT, 6_001, 7_000, source=SOURCE, fetched_at=FETCHED_AT)

    newest = raw.newest(PRODUCT)
    assert newest is not None
    assert newest.trade_id == 5_800
    assert newest.time.timestamp() * 1e6 == EPOCH_US + 137_001 * 5_800
    assert newest.time.utcoffset() is not None
    assert raw.first_id(PRODUCT) == 5_007


def test_the_oldest_trade_is_the_first_only_if_all_below_it_is_answered_for(raw: RawLake) -> None:
    raw.write_empty(PRODUCT, 1, 4_000, source=SOURCE, fetched_at=FETCHED_AT)
    keep(raw, 5_001, 6_000, ids=[5_007, 5_800])
    assert raw.proven_first(PRODUCT) is None

    raw.write_empty(PRODUCT, 4_001, 5_000, source=SOURCE, fetched_at=FETCHED_AT)
    assert raw.proven_first(PRODUCT) == 5_007


@pytest.mark.parametrize("look", ["totals", "newest", "first_id", "newest_sources"])
def test_a_part_merged_away_since_the_listing_is_looked_for_again(
    raw: RawLake, monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    keep(raw, 1, 1_000)
    keep(raw, 1_001, 2_000)
    before = raw.parts(PRODUCT)
    raw.merge(PRODUCT, before.parts)
    expected = getattr(raw, look)(PRODUCT)

    listings, fresh = iter([before]), raw.parts
    monkeypatch.setattr(raw, "parts", lambda product: next(listings, None) or fresh(product))
    assert getattr(raw, look)(PRODUCT) == expected


def test_reading_a_range_cuts_at_its_ends(raw: RawLake) -> None:
    keep(raw, 1, 1_000)
    keep(raw, 1_001, 2_000, ids=range(1_001, 2_001, 3))

    assert raw.read(PRODUCT, 990, 1_010).equals(
        trades([*range(990, 1_001), 1_001, 1_004, 1_007, 1_010])
    )
    assert raw.read(PRODUCT, 3_000, 4_000).num_rows == 0
    assert [table.num_rows for table in raw.scan(PRODUCT, 500, 1_001)] == [501, 1]
    assert raw.totals(PRODUCT, 990, 1_010) == (15, IntervalSet())


def test_values_are_exact(raw: RawLake) -> None:
    big = 9_007_199_254_740_993
    cell = raw.grid.cell_of(big)
    odd = ["1E-8", "0.000000000000000001", "1E+10", "123456789012345678901.5", "0." + "1" * 40]
    tables = [
        one_trade(trade_id=big + n, price=text, size=text, side="SELL")
        for n, text in enumerate(odd)
    ]
    raw.write(
        PRODUCT,
        cell.lo,
        cell.hi,
        pa.concat_tables(tables),
        source=SOURCE,
        fetched_at=FETCHED_AT,
    )

    table = raw.read(PRODUCT)

    assert table["trade_id"].to_pylist() == [big + n for n in range(len(odd))]
    assert table["price"].to_pylist() == odd
    assert table["size"].to_pylist() == odd
    assert set(table["side"].to_pylist()) == {"SELL"}


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1_000", " 1.0 ", "", "0x10", "1E999", "١"])
def test_what_is_no_decimal_is_refused_with_its_id(raw: RawLake, text: str) -> None:
    with pytest.raises(InvalidTrades) as caught:
        raw.write(
            PRODUCT, 1, 10, one_trade(trade_id=7, size=text), source=SOURCE, fetched_at=FETCHED_AT
        )

    assert (caught.value.product, caught.value.trade_id) == (PRODUCT, 7)
    assert repr(text) in str(caught.value)
    assert raw.parts(PRODUCT).parts == ()


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        (trades([1, 2, 2]), "trade 2 follows 2"),
        (trades([1, 3, 2]), "trade 2 follows 3"),
        (trades([0, 1]), "trade 0 is outside"),
        (trades([1, 11]), "trade 11 is outside"),
        (trades([1]).drop_columns(["side"]), "not the fixed schema"),
        (trades([1]).cast(NULLABLE), "not the fixed schema"),
        (one_trade(side="buy|sell"), "not a word"),
    ],
)
def test_rows_that_contradict_their_range_are_refused(
    raw: RawLake, rows: pa.Table, what: str
) -> None:
    with pytest.raises(InvalidTrades, match=what):
        raw.write(PRODUCT, 1, 10, rows, source=SOURCE, fetched_at=FETCHED_AT)

    assert raw.parts(PRODUCT).parts == ()


def test_rows_never_cross_the_border_of_a_cell(raw: RawLake) -> None:
    with pytest.raises(InvalidTrades, match="border between cells of 5000 ids"):
        keep(raw, 4_001, 6_000)


@pytest.mark.parametrize(
    "product", ["", "BTC USD", "../etc", "BTC/USD", "BTC-USD\n", "ẞ-USD", "-A"]
)
def test_a_name_from_outside_never_becomes_a_path(raw: RawLake, product: str) -> None:
    with pytest.raises(InvalidName):
        raw.write(product, 1, 1, trades([1]), source=SOURCE, fetched_at=FETCHED_AT)
    with pytest.raises(InvalidName):
        raw.coverage(product)


def test_a_source_is_a_host_and_no_url_with_a_secret(raw: RawLake) -> None:
    with pytest.raises(ValueError, match="host name"):
        raw.write_empty(PRODUCT, 1, 2, source="https://me:secret@host/", fetched_at=FETCHED_AT)


def test_foreign_files_are_reported_and_left_alone(raw: RawLake) -> None:
    keep(raw, 1, 10)
    folder = raw.parts(PRODUCT).parts[0].key.rpartition("/")[0]
    strange = ["part-1-2.parquet", "part-000000000009-000000000001.parquet", "README.md"]
    for name in strange:
        raw.store.put(f"{folder}/{name}", b"not ours")

    listing = raw.parts(PRODUCT)

    assert [(part.lo, part.hi) for part in listing.parts] == [(1, 10)]
    assert listing.foreign == tuple(sorted(f"{folder}/{name}" for name in strange))
    assert raw.sweep(PRODUCT).pieces == ()
    assert raw.store.exists(f"{folder}/README.md")


def test_a_longer_part_hides_those_it_contains(raw: RawLake) -> None:
    keep(raw, 1, 1_000)
    keep(raw, 1_001, 2_000)
    keep(raw, 1, 3_000)

    listing = raw.parts(PRODUCT)

    assert [(part.lo, part.hi) for part in listing.parts] == [(1, 3_000)]
    assert [(part.lo, part.hi) for part in listing.hidden] == [(1, 1_000), (1_001, 2_000)]
    assert listing.overlaps == ()
    assert raw.read(PRODUCT).equals(trades(range(1, 3_001)))


def test_parts_that_overlap_are_reported_and_read_once(raw: RawLake) -> None:
    keep(raw, 1, 1_500)
    keep(raw, 1_001, 2_000)

    (overlap,) = raw.parts(PRODUCT).overlaps

    assert overlap.shared == (1_001, 1_500)
    assert raw.read(PRODUCT).equals(trades(range(1, 2_001)))
    assert raw.totals(PRODUCT) == (2_000, IntervalSet())


def test_pieces_become_one_part(raw: RawLake) -> None:
    for lo in range(1, 5_001, 1_000):
        keep(raw, lo, lo + 999, ids=range(lo, lo + 999, 2))

    (receipt,) = raw.merge_due(PRODUCT)

    listing = raw.parts(PRODUCT)
    assert [(part.lo, part.hi) for part in listing.parts] == [(1, 5_000)]
    assert (listing.hidden, listing.foreign) == ((), ())
    assert receipt.footer == raw.verify(listing.parts[0])
    assert raw.read(PRODUCT).equals(trades(range(1, 5_001, 2)))
    assert raw.merge_due(PRODUCT) == []


def test_what_does_not_touch_or_crosses_a_border_is_not_merged(raw: RawLake) -> None:
    keep(raw, 1, 1_000)
    keep(raw, 2_001, 5_000)
    keep(raw, 5_001, 6_000)
    first, second, third = raw.parts(PRODUCT).parts

    for pieces, reason in [((first, second), "touch"), ((second, third), "more than one cell")]:
        with pytest.raises(MergeRefused, match=reason):
            raw.merge(PRODUCT, pieces)
    assert raw.parts(PRODUCT).parts == (first, second, third)


def test_a_piece_that_differs_from_its_footer_is_not_merged(raw: RawLake) -> None:
    keep(raw, 1, 1_000)
    keep(raw, 1_001, 2_000)
    first, second = raw.parts(PRODUCT).parts
    forged = raw.store.get(first.key).replace(raw.footer(first).digest.encode(), b"0" * 31 + b"1")
    raw.store.put(first.key, forged)

    with pytest.raises(MergeRefused, match="digest"):
        raw.merge(PRODUCT, (first, second))
    with pytest.raises(PartUnreadable, match="digest"):
        raw.verify(first)
    assert raw.parts(PRODUCT).parts == (first, second)


def test_a_sweep_ends_what_a_killed_merge_began(raw: RawLake) -> None:
    keep(raw, 1, 1_000)
    keep(raw, 1_001, 2_000)
    keep(raw, 1, 2_000)

    receipt = raw.sweep(PRODUCT)

    assert [(part.lo, part.hi) for part in receipt.pieces] == [(1, 1_000), (1_001, 2_000)]
    assert raw.parts(PRODUCT).hidden == ()
    assert raw.read(PRODUCT).equals(trades(range(1, 2_001)))


def test_a_sweep_keeps_what_the_longer_part_does_not_hold(raw: RawLake) -> None:
    keep(raw, 1, 1_000)
    keep(raw, 1, 2_000, ids=range(2, 2_001))

    receipt = raw.sweep(PRODUCT)

    assert receipt.pieces == ()
    ((part, reason),) = receipt.kept
    assert (part.lo, part.hi) == (1, 1_000)
    assert "other rows" in reason


def test_a_scan_goes_on_when_its_pieces_are_merged_away(raw: RawLake) -> None:
    for lo in range(1, 5_001, 1_000):
        keep(raw, lo, lo + 999)
    scan = raw.scan(PRODUCT)
    seen = [next(scan), next(scan)]

    raw.merge_due(PRODUCT)
    seen += scan

    assert pa.concat_tables(seen).equals(trades(range(1, 5_001)))


def test_a_read_starts_no_thread(raw: RawLake, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(raw, 1, 1_000)
    keep(raw, 1_001, 2_000)
    readers = []

    def noting(part: Part) -> tuple[pa.Table, PartFooter]:
        readers.append(threading.current_thread())
        return RawLake.read_part(raw, part)

    monkeypatch.setattr(raw, "read_part", noting)

    assert raw.read(PRODUCT).num_rows == 2_000
    assert readers == [threading.current_thread()] * 2


def test_damaged_parts_are_named(raw: RawLake) -> None:
    keep(raw, 1, 1_000)
    keep(raw, 1_001, 2_000)
    first, second = raw.parts(PRODUCT).parts
    content = raw.store.get(first.key)

    for damaged in (b"", b"PAR1", content[: len(content) // 2], b"\0" * 10_000):
        raw.store.put(first.key, damaged)
        with pytest.raises(PartUnreadable, match="part-000000000001-000000001000"):
            raw.footer(first)
        with pytest.raises(PartUnreadable):
            raw.read(PRODUCT)
        found = dict(raw.footers(raw.parts(PRODUCT).parts))
        assert [type(value).__name__ for value in found.values()] == [
            "PartUnreadable",
            "PartFooter",
        ]
    raw.store.put(first.key, raw.store.get(second.key))
    with pytest.raises(PartUnreadable, match="answers for"):
        raw.footer(first)


def test_the_grid_is_recorded_once_and_wins(store: Store) -> None:
    assert load_or_create_grid(store, "coinbase", 5) == Grid(5)
    assert load_or_create_grid(store, "coinbase", 7) == Grid(5)
    assert load_or_create_grid(store, "kraken", 7) == Grid(7)
