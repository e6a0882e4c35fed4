"""The page of a lake as a file: collected, drawn, written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from importlib.util import find_spec
from pathlib import Path

from headrace.atomic_files import check_place, written_whole
from headrace.checks.request import CheckRequest
from headrace.lake import Lake
from headrace.lake_report.facts import UNREADABLE, DailyTrades, LakeFacts, Noted, RunFacts, collect
from headrace.lake_report.page import render
from headrace.unified.table import unified_table

_DAILY = "SELECT exchange, symbol, date, count(*) AS count FROM trades GROUP BY ALL"


def write_page(
    lake: Lake,
    output: Path,
    *,
    checks: CheckRequest | None = None,
    noted: Mapping[tuple[str, str], Noted] | None = None,
    runs: Sequence[RunFacts] | None = None,
) -> LakeFacts:
    """Write the page; one that is there is replaced. What it says is returned.

    Args:
        lake: is only read.
        output: the file.
        checks, noted, runs: as of `collect`.

    Raises:
        ConfigurationError: no file can be written there.
        GridDamaged, StoreError: the lake cannot be read.
        OSError: the file could not be written.
    """
    check_place(output, lake.location, force=True)
    daily, problem = None, ""
    try:
        daily = _daily(lake)
    except UNREADABLE as error:
        problem = str(error)
    facts = collect(lake, now=datetime.now(UTC), daily=daily, noted=noted, runs=runs, checks=checks)
    facts = replace(facts, unified_problem=facts.unified_problem or problem)
    with written_whole(output, force=True) as sink:
        sink.write(render(facts).encode())
    return facts


def _daily(lake: Lake) -> DailyTrades | None:
    """Trades per day of the unified table; None without one, or without DuckDB."""
    if not unified_table(lake).exists() or find_spec("duckdb") is None:
        return None
    from headrace.query.session import open_session

    days: defaultdict[tuple[str, str], dict[date, int]] = defaultdict(dict)
    with open_session(lake) as session, session.stream(_DAILY) as reader:
        for batch in reader:
            for row in batch.to_pylist():
                days[row["exchange"], row["symbol"]][row["date"]] = row["count"]
    return days
