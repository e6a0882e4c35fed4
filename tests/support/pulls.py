"""Run a flow as a deployment does, and hold the lake against the simulator's own function."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.lake import Grid, RawLake
from headrace.lake.opening import make_store
from headrace.pull.report import ProductReceipt, Summary
from headrace.sim import SimulatedExchange
from headrace.trades import empty_trades


class Watcher:
    """Keeps the summary that a run gave its observers."""

    def __init__(self) -> None:
        self.summary: Summary | None = None

    def started(self, run: Any) -> None:
        self.run = run

    def ended(self, summary: Summary) -> None:
        self.summary = summary


def run_backfill(
    sim: SimulatedExchange | str, lake: Path | str, products: Iterable[str], **parameters: Any
) -> Summary:
    """Run the flow and return what it did; its errors are raised."""
    return run_pull("backfill", sim, lake, products, **parameters)


def run_pull(
    flow: str,
    sim: SimulatedExchange | str,
    lake: Path | str,
    products: Iterable[str],
    **parameters: Any,
) -> Summary:
    from importlib import import_module

    from tasks.kernel import observing

    watcher = Watcher()
    url = sim if isinstance(sim, str) else sim.url
    parameters = {"rate": "none", "lake": str(lake), "base_url": url, **parameters}
    with observing(watcher):
        state = getattr(import_module(f"flows.{flow}"), flow)(
            products=list(products), **parameters, return_state=True
        )
    if watcher.summary is None:
        state.result(raise_on_failure=True)
        raise AssertionError("the run ended without a summary")
    return watcher.summary


def of_product(summary: Summary, product: str) -> ProductReceipt:
    """The receipt of one product."""
    return next(receipt for receipt in summary.products if receipt.product == product)


def stored(lake: Path | str, product: str) -> pa.Table:
    """Every row under a product's folder as any Parquet reader sees it: no part is passed over."""
    folder = Path(lake) / "raw" / "trades" / "exchange=coinbase" / f"product={product}"
    parts = sorted(folder.glob("*.parquet")) if folder.exists() else []
    tables = [pq.ParquetFile(part).read() for part in parts]
    return pa.concat_tables(tables) if tables else empty_trades()


def assert_lake_equals_source(
    lake: Path | str, sim: SimulatedExchange, product: str, *, lo: int = 1, hi: int | None = None
) -> None:
    """Every trade of the source in [lo, hi] is stored exactly once, and every value is exact."""
    hi = sim.newest_id(product) if hi is None else hi
    truth = sim.history(product).columns(lo, hi)
    rows = stored(lake, product).sort_by("trade_id")
    assert rows.column("trade_id").to_pylist() == list(truth.trade_id)
    assert rows.column("time").cast("int64").to_pylist() == list(truth.time_us)
    for name in ("price", "size", "side"):
        assert rows.column(name).to_pylist() == list(getattr(truth, name))


def coverage(lake: Path | str, product: str) -> list[list[int]]:
    """The covered ranges, from names; nothing is written, not even to see whether one could."""
    return RawLake(make_store(str(lake)), "coinbase", Grid()).coverage(product).as_lists()
