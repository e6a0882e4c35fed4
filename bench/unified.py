"""The unified table: five million trades, beside the same job written plainly; and many more.

`side`: raw parts of one product to typed, partitioned Parquet, by a transform, by DuckDB a day at a
time, and by Polars, each in a process of its own. The plain ones check nothing, record nothing and
write no log. `scale`: 10 to 100 million trades of ten products: memory and time.
"""

from __future__ import annotations

import json
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.machine import machine_state, measured, save
from bench.made_lake import PARTS, fill_lake

ROWS, ROUNDS = 5_000_000, 5
SCALES = (10_000_000, 30_000_000, 100_000_000)
PRODUCTS = 10


def run(arguments: Sequence[str]) -> dict[str, Any]:
    """Both parts, or those named in the arguments."""
    parts: dict[str, Callable[[Path], Any]] = {"side": _side, "scale": _scale}
    chosen = [name for name in arguments if name in parts] or list(parts)
    results: dict[str, Any] = {}
    for name in chosen:
        with tempfile.TemporaryDirectory() as scratch:
            results[name] = parts[name](Path(scratch))
        save(f"unified-{name}", {name: results[name], "machine": machine_state()})
    return results


def _side(scratch: Path) -> list[dict[str, Any]]:
    lake = scratch / "lake"
    fill_lake(lake, ROWS, ["BTC-USD"])
    print(f"{ROWS:,} trades   wall s   CPU s   peak MB   rows/s")
    jobs = ("transform", "duckdb", "polars")
    # In turn, so that what else the machine does falls on all of them.
    rounds = [{job: _from_nothing(job, lake) for job in jobs} for _ in range(ROUNDS)]
    found = []
    for job in jobs:
        best = min((each[job] for each in rounds), key=lambda each: each["wall_s"])
        best["peak_mb"] = max(each[job]["peak_mb"] for each in rounds)
        best["least_cpu_s"] = min(each[job]["cpu_s"] for each in rounds)
        found.append(best)
        print(
            f"{job:<18} {best['wall_s']:>8.2f} {best['cpu_s']:>7.2f} {best['peak_mb']:>9.0f} "
            f"{ROWS / best['wall_s']:>8,.0f}",
            flush=True,
        )
    return found


def _scale(scratch: Path) -> list[dict[str, Any]]:
    names = [f"P{n}-USD" for n in range(PRODUCTS)]
    lake = scratch / "lake"
    print("trades        wall s   CPU s   peak MB   million rows/s")
    found = []
    for rows in SCALES:
        fill_lake(lake, rows // PRODUCTS, names)
        one = {"rows": rows, **_from_nothing("transform", lake)}
        found.append(one)
        print(
            f"{rows:<12,} {one['wall_s']:>7.1f} {one['cpu_s']:>7.1f} {one['peak_mb']:>9.0f} "
            f"{rows / one['wall_s'] / 1e6:>10.2f}",
            flush=True,
        )
    return found


def _from_nothing(job: str, lake: Path) -> dict[str, Any]:
    """One job, on a lake without a table."""
    shutil.rmtree(lake / "unified", ignore_errors=True)
    return measured("bench.unified", job, str(lake))


def _transform(lake: Path) -> int:
    """What `headrace transform` does with the products, in its threads, without Prefect."""
    from concurrent.futures import ThreadPoolExecutor

    from headrace.cli.entry import keep_memory_small

    keep_memory_small()
    from headrace.lake import open_lake
    from headrace.unified.transformer import Transformer

    transformer = Transformer(open_lake(lake), "coinbase")
    transformer.tables.make()
    with ThreadPoolExecutor(2) as pool:
        prepared = list(pool.map(transformer.take, transformer.raw.products()))
    changes = [each.change for each in prepared if each.change is not None]
    assert transformer.tables.commit(changes, "transform") == []
    return sum(file.rows for file in transformer.tables.trades.snapshot().files())


_COLUMNS = """
    trade_id, side, case side when 'buy' then 'sell' when 'sell' then 'buy' end as taker_side,
    price::decimal(28, 14) as price, size::decimal(28, 10) as quantity, time as trade_ts,
    time::date as date
"""


def _duckdb(lake: Path) -> int:
    """A day at a time, which keeps memory small."""
    import duckdb

    database = duckdb.connect()
    database.execute("set memory_limit = '250MB'; set timezone = 'UTC'")
    out = lake / "unified"
    out.mkdir()
    parts = f"read_parquet('{lake}/{PARTS}', hive_partitioning = true)"
    days = database.execute(f"select distinct time::date from {parts} order by 1").fetchall()
    for (day,) in days:
        database.execute(
            f"copy (select {_COLUMNS} from {parts} where time >= '{day} 00:00:00+00' "
            f"and time < '{day} 00:00:00+00'::timestamptz + interval 1 day order by trade_id) "
            f"to '{out}/{day}.parquet' (compression zstd, compression_level 1)"
        )
    counted = database.execute(f"select count(*) from '{out}/*.parquet'").fetchall()
    return int(counted[0][0])


def _polars(lake: Path) -> int:
    """All at once, as it is written most simply."""
    import polars as pl

    out = lake / "unified"
    out.mkdir()
    trades = pl.scan_parquet(f"{lake}/{PARTS}", hive_partitioning=True).select(
        "trade_id",
        "side",
        pl.col("side").replace_strict({"buy": "sell", "sell": "buy"}).alias("taker_side"),
        pl.col("price").cast(pl.Decimal(28, 14)),
        pl.col("size").cast(pl.Decimal(28, 10)).alias("quantity"),
        pl.col("time").alias("trade_ts"),
        pl.col("time").dt.date().alias("date"),
        pl.col("time").dt.strftime("%Y-%m").alias("month"),
    )
    rows = 0
    for (month,), of_month in (
        trades.collect().partition_by("month", as_dict=True, include_key=False).items()
    ):
        of_month.sort("trade_id").write_parquet(
            out / f"{month}.parquet", compression="zstd", compression_level=1
        )
        rows += of_month.height
    return rows


if __name__ == "__main__":
    jobs = {"transform": _transform, "duckdb": _duckdb, "polars": _polars}
    began = time.perf_counter()
    counted = jobs[sys.argv[1]](Path(sys.argv[2]))
    wall_s = time.perf_counter() - began
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps(
            {
                "job": sys.argv[1],
                "rows": counted,
                "wall_s": round(wall_s, 2),
                "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
                "peak_mb": usage.ru_maxrss >> 10,
            }
        )
    )
