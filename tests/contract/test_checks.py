"""A check, and the list of products, are the same over every store."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

from headrace.checks.checker import Known
from headrace.checks.layers import Layers
from headrace.checks.report import Breach, Check, ProductChecks
from headrace.lake import Lake, RawLake, Store
from headrace.leases import SqliteLeases
from headrace.products.list_file import change_list, kept_list
from headrace.unified.table import unified_table
from headrace.unified.transformer import Transformer
from tests.lake_samples import FETCHED_AT, SOURCE, trades
from tests.support.checks import PRODUCT, CheckedLake, changed, priced, rows
from tests.support.unified import put, transform


def test_faults_are_found_part_by_part(store: Store) -> None:
    lake = CheckedLake(store)
    lake.put(1, 100, changed(rows(1, 100, newest=400), priced("-1"), 7))
    lake.put(101, 200, rows(101, 200, newest=400))
    damaged = lake.put(201, 250, rows(201, 250, newest=400))
    store.put(damaged, store.get(damaged)[:-50])
    lake.put(301, 400, rows(301, 400))
    found = lake.breaches()
    assert {check: breach.range for check, breach in found.items()} == {
        Check.MISSING: (251, 300),
        Check.UNREADABLE: (201, 250),
        Check.PRICE: (7, 7),
    }
    assert lake.check(last="1m").parts == 2


def test_a_check_beside_a_run_that_merges_sees_every_trade_once(store: Store) -> None:
    lake = CheckedLake(store)
    raw: RawLake = lake.raw
    last = 4_000
    ended = Event()

    def fill() -> None:
        for lo in range(1, last, 250):
            piece = trades(range(lo, lo + 250))
            raw.write(PRODUCT, lo, lo + 249, piece, source=SOURCE, fetched_at=FETCHED_AT)
            raw.merge_due(PRODUCT)
        ended.set()

    raw.write(PRODUCT, 1, 250, trades(range(1, 251)), source=SOURCE, fetched_at=FETCHED_AT)
    writer = Thread(target=fill)
    writer.start()
    seen = []
    while not ended.is_set():
        result = lake.check(max_age=["none"])
        assert (result.error, [b for b in result.breaches if b.check is not Check.DUPLICATE]) == (
            "",
            [],
        )
        seen.append(result.rows)
    writer.join()
    assert seen == sorted(seen)
    result = lake.check(max_age=["none"])
    assert (result.rows, result.breaches) == (last, ())


def test_the_unified_table_is_held_against_the_raw_layer(store: Store) -> None:
    lake = CheckedLake(store)
    for lo in (1, 1_001, 2_001):
        put(lake.raw, lo, lo + 999, trades(range(lo, lo + 1_000)))
    transform(Transformer(Lake(store), "coinbase"))

    def checked() -> ProductChecks:
        known = Known(layers=Layers.opened(store, "coinbase"))
        result = lake.check(known, max_age=["none"], max_jump=0)
        assert result.error == ""
        return result

    def breach() -> Breach:
        return {found.check: found for found in checked().breaches}[Check.UNIFIED]

    assert (checked().breaches, checked().notes) == ((), ())
    put(lake.raw, 1_001, 2_000, trades(range(1_001, 1_999)))
    assert "changed since the last transform" in checked().notes[0]
    transform(Transformer(Lake(store), "coinbase"))
    assert (checked().breaches, checked().notes) == ((), ())
    for part in lake.raw.parts(PRODUCT).parts[1:]:
        store.delete(part.key)
    assert breach().range == (1_001, 3_000)
    table = unified_table(Lake(store))
    for file in table.snapshot().files():
        store.delete(f"{table.root}/{file.path}")
    assert "--rebuild" in breach().message


def test_the_list_of_products_is_kept(store: Store, tmp_path: Path) -> None:
    leases = SqliteLeases(tmp_path / "leases")
    for product in ("B-USD", "A-USD"):
        change_list(store, "coinbase", leases, lambda kept, each=product: kept.with_added([each]))
    assert kept_list(store, "coinbase").ids() == ["A-USD", "B-USD"]
