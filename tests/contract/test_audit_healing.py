"""Finding and mending over every store: what is set aside is kept, what is proven is tidied."""

from __future__ import annotations

from headrace.audit.parts import find_set_aside
from headrace.lake import Grid, RawLake, Store
from headrace.run.report import Status
from tests.support.audits import PRODUCT, Bench, kinds


def test_a_damaged_and_untidy_product_is_mended(store: Store) -> None:
    bench = Bench(RawLake(store, "coinbase", Grid(cell_pages=5)))
    bench.keep(1, 500)
    bench.keep(1, 1_000)
    bench.keep(501, 1_500)
    damaged = bench.keep(1_501, 2_500)
    store.put(damaged.key, b"half of a file")
    assert sorted(kinds(bench.audit(2_500))) == [
        "checkpoint_absent",
        "duplicate",
        "leftover",
        "unreadable",
    ]
    assert {repair.action.value for repair in bench.heal()} == {
        "set_aside",
        "swept",
        "shortened",
        "checkpoint_rebuilt",
    }
    listing = bench.raw.parts(PRODUCT)
    assert [(part.lo, part.hi) for part in listing.parts] == [(1, 1_000), (1_001, 1_500)]
    assert listing.foreign == ()
    assert [store.get(key) for key in find_set_aside(bench.raw, PRODUCT)] == [b"half of a file"]
    found = bench.audit(2_500, deep=True)
    assert found.counted.missing.ranges == ((1_501, 2_500),)
    assert kinds(found) == ["missing", "set_aside"]
    bench.keep(1_501, 2_500)
    bench.save_checkpoint()
    assert bench.audit(2_500, deep=True).status is Status.DONE
