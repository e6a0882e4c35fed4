"""`python -m bench.quota [part …] [--quick]`: measure, print tables, write bench/results/."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.machine import machine_state
from bench.quota import (
    backfills,
    keyed,
    matrix,
    refusals,
    scenarios,
    shared,
    signed,
    strict_window,
)

RESULTS = Path(__file__).parents[1] / "results"
LIMITERS = ("headrace", "stock")


def _matrix(*, quick: bool) -> list[dict[str, Any]]:
    rows = matrix.measure(LIMITERS, quick=quick)
    return sorted(rows, key=lambda row: (int(row["rate"][:-2]), row["shape"] == "1 x 45"))


def _scenarios(*, quick: bool) -> list[dict[str, Any]]:
    return [
        {"limiter": limiter, "scenario": name, "result": result}
        for limiter in LIMITERS
        for name, result in scenarios.measure(limiter, quick=quick).items()
        if name != "limiter"
    ]


def _strict_window(*, quick: bool) -> list[dict[str, Any]]:
    return strict_window.measure(quick=quick)


def _refusals(*, quick: bool) -> list[dict[str, Any]]:
    return refusals.measure(quick=quick)


def _backfills(*, quick: bool) -> list[dict[str, Any]]:
    return backfills.measure(quick=quick)


def _keyed(*, quick: bool) -> list[dict[str, Any]]:
    return keyed.measure(quick=quick)


def _signed(*, quick: bool) -> list[dict[str, Any]]:
    return signed.measure(quick=quick)


def _shared(*, quick: bool) -> list[dict[str, Any]]:
    return shared.measure(quick=quick)


PARTS: dict[str, Callable[..., list[dict[str, Any]]]] = {
    "scenarios": _scenarios,
    "matrix": _matrix,
    "strict-window": _strict_window,
    "refusals": _refusals,
    "backfills": _backfills,
    "keyed": _keyed,
    "signed": _signed,
    "shared": _shared,
}


def run_part(name: str, *, quick: bool) -> list[dict[str, Any]]:
    """Measure one part, print it and write `bench/results/quota-<part>.json`."""
    before, began = machine_state(), time.monotonic()
    rows = PARTS[name](quick=quick)
    record = {
        "part": name,
        "quick": quick,
        "took_s": round(time.monotonic() - began, 1),
        "machine_before": before,
        "machine_after": machine_state(),
        "rows": rows,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"quota-{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    Console(width=180).print(_table(name, rows))
    return rows


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(*rows[0], title=title)
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    return table


def run(arguments: list[str]) -> None:
    """Measure what was asked for; everything by default."""
    parser = argparse.ArgumentParser(prog="python -m bench.quota", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    for name in options.parts or PARTS:
        run_part(name, quick=options.quick)
