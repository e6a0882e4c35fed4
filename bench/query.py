"""One product and day of 100 million trades: how much is read, and beside DuckDB on the raw layer.

`headrace query` on the unified table and on the raw layer, and DuckDB's own file access on the raw
parts, each in a process of its own, with the files in the page cache. Time is that of opening the
lake and of the query, without imports. The bytes are those that DuckDB asks of the store.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from bench.machine import machine_state, measured, save
from bench.made_lake import BEGIN, DAILY_TRADES, PARTS, fill_lake
from headrace.lake import look_into
from headrace.lake.opening import make_store
from headrace.query.session import open_session

import duckdb  # isort: skip

ROWS, PRODUCTS, ROUNDS = 100_000_000, 10, 3
SYMBOL = "P3-USD"
#: What is asked for: columns of the unified table, and how they are made of the raw layer's.
QUESTIONS = {
    "sums": (
        "count(*), max(price), sum(quantity)",
        "count(*), max(price::decimal(28, 14)), sum(size::decimal(28, 10))",
    ),
    "rows": (
        "trade_id, side, price, quantity, trade_ts",
        "trade_id, side, price::decimal(28, 14), size::decimal(28, 10), time",
    ),
}


def run(arguments: Sequence[str]) -> dict[str, Any]:
    """All of it; rows=1000000 makes it smaller, lake=FOLDER keeps the lake for another time."""
    given = dict(each.split("=", 1) for each in arguments)
    rows = int(given.get("rows", ROWS))
    day = (BEGIN + timedelta(days=rows // PRODUCTS // DAILY_TRADES // 2)).date().isoformat()
    with tempfile.TemporaryDirectory() as scratch:
        lake = Path(given.get("lake", scratch), "lake")
        fill_lake(lake, rows // PRODUCTS, [f"P{n}-USD" for n in range(PRODUCTS)])
        measured("bench.unified", "transform", str(lake))
        results = {"rows": rows, "day": day, "queries": _compared(lake, day)}
    save("query", {**results, "machine": machine_state()})
    return results


def _compared(lake: Path, day: str) -> list[dict[str, Any]]:
    found = []
    print("question  of            wall s   CPU s   peak MB   bytes read   of its layer")
    for question in QUESTIONS:
        for layer in WAYS:
            rounds = [
                measured("bench.query", layer, question, day, str(lake)) for _ in range(ROUNDS + 1)
            ][1:]  # the first brings the files into the page cache
            best = min(rounds, key=lambda each: each["wall_s"])
            found.append(best)
            share = f"{best['share']:.2%}" if best["bytes_read"] else ""
            print(
                f"{question:<9} {layer:<12} {best['wall_s']:>7.3f} {best['cpu_s']:>7.3f} "
                f"{best['peak_mb']:>9.0f} {best['bytes_read']:>12,} {share:>14}",
                flush=True,
            )
        digests = {each["answer"] for each in found if each["question"] == question}
        if len(digests) != 1:
            raise SystemExit(f"{question}: the layers answer differently: {found}")
    return found


def _by_headrace(sql: str, lake: Path) -> tuple[Any, int]:
    with open_session(look_into(make_store(str(lake)))) as session:
        with session.stream(sql) as reader:
            table = reader.read_all()
        return table, session.files.bytes_read


def _unified(question: str, day: date, lake: Path) -> tuple[Any, int]:
    columns, _ = QUESTIONS[question]
    return _by_headrace(
        f"select {columns} from trades where symbol = '{SYMBOL}' and date = '{day}'", lake
    )


def _of_day(day: date) -> str:
    """The day in the raw layer, which has no column for it."""
    return (
        f"where product = '{SYMBOL}' and time >= '{day} 00:00:00+00' "
        f"and time < '{day + timedelta(days=1)} 00:00:00+00'"
    )


def _raw(question: str, day: date, lake: Path) -> tuple[Any, int]:
    _, columns = QUESTIONS[question]
    return _by_headrace(f"select {columns} from trades_raw {_of_day(day)}", lake)


def _duckdb_raw(question: str, day: date, lake: Path) -> tuple[Any, int]:
    _, columns = QUESTIONS[question]
    database = duckdb.connect()
    database.execute("set timezone = 'UTC'")
    parts = f"read_parquet('{lake}/{PARTS}', hive_partitioning = true)"
    reader = database.sql(f"select {columns} from {parts} {_of_day(day)}").to_arrow_reader()
    return reader.read_all(), 0


WAYS: dict[str, Callable[[str, date, Path], tuple[Any, int]]] = {
    "unified": _unified,
    "raw": _raw,
    "DuckDB, raw": _duckdb_raw,
}


def _answer(table: Any) -> str:
    """The same for the same rows, in whatever order they come."""
    names = [f"c{n}" for n in range(table.num_columns)]
    rows = table.rename_columns(names).sort_by(names[0]).to_pylist()
    if not rows:
        raise SystemExit("the day has no rows")
    return str((len(rows), rows[0], rows[-1]))


if __name__ == "__main__":
    import deltalake  # noqa: F401 - a query would import it while it is measured

    way, question, day, place = sys.argv[1:]
    layer = Path(place, "unified/trades" if way == "unified" else "raw/trades")
    began, cpu_began = time.perf_counter(), time.process_time()
    table, bytes_read = WAYS[way](question, date.fromisoformat(day), Path(place))
    wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    size = sum(path.stat().st_size for path in layer.glob("**/*.parquet"))
    print(
        json.dumps(
            {
                "question": question,
                "of": way,
                "wall_s": round(wall_s, 3),
                "cpu_s": round(cpu_s, 3),
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
                "bytes_read": bytes_read,
                "bytes": size,
                "share": round(bytes_read / size, 5),
                "answer": _answer(table),
            }
        )
    )
