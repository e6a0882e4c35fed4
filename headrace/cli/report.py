"""`headrace report`: a lake as one HTML page."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, date, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.checks.request import CheckRequest
from headrace.cli.common import LakeOption
from headrace.cli.lakes import check_place, opened_store, written_whole
from headrace.coverage import IntervalSet
from headrace.lake import Lake, look_into
from headrace.lake_report.facts import DailyTrades, Noted, RunFacts, collect
from headrace.lake_report.page import render
from headrace.settings import load_settings
from headrace.unified.table import unified_table

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

_RUNS_SHOWN = 15
_DAILY = "SELECT exchange, symbol, date, count(*) AS count FROM trades GROUP BY ALL"


def report(
    output: Annotated[Path, typer.Option(help="The file; one that is there is replaced.")] = Path(
        "headrace-report.html"
    ),
    lake: LakeOption = "",
    check_last: Annotated[
        str,
        typer.Option(help="Make the checks on rows of this length of time; none: make no checks."),
    ] = "1d",
    runs: Annotated[
        bool,
        typer.Option("--runs", help="Ask the Prefect API for the last runs, and for what failed."),
    ] = False,
) -> None:
    """Make one HTML page of a lake: what is stored, and what not.

    The page needs no server and no network: it is one file, to be opened in any browser.
    """
    checks = None
    if check_last != "none":
        checks = CheckRequest.checked(lake=lake or load_settings().lake, last=check_last)
    with opened_store(lake, quiet=False) as store:
        opened = look_into(store)
        check_place(output, opened, force=True)
        noted, last = _from_prefect(opened.location) if runs else (None, None)
        facts = collect(
            opened,
            now=datetime.now(UTC),
            daily=_daily(opened),
            noted=noted,
            runs=last,
            checks=checks,
        )
    with written_whole(output, force=True) as sink:
        sink.write(render(facts).encode())
    typer.echo(f"{output}: {len(facts.products):,} products of {facts.location}")


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


def _from_prefect(location: str) -> tuple[dict[tuple[str, str], Noted], list[RunFacts]]:
    """What checkpoints of the lake say, and the last runs."""
    from headrace.cli.server import api_for_run
    from headrace.cli.server.run import say_on_stderr

    with api_for_run(load_settings().home, say=say_on_stderr):
        from prefect.client.schemas.sorting import FlowRunSort

        from blocks.checkpoint import found_checkpoints
        from blocks.documents import client_for

        noted = {
            (checkpoint.source, checkpoint.product): Noted(
                IntervalSet(checkpoint.failed), checkpoint.newest
            )
            for found in found_checkpoints()
            if (checkpoint := found.checkpoint) and checkpoint.lake == location
        }
        with client_for("the last runs cannot be listed") as client:
            runs = client.read_flow_runs(limit=_RUNS_SHOWN, sort=FlowRunSort.START_TIME_DESC)
            flows = {run.flow_id: client.read_flow(run.flow_id).name for run in runs}
    return noted, [_run_facts(run, flows[run.flow_id]) for run in runs]


def _run_facts(run: FlowRun, flow: str) -> RunFacts:
    state = run.state_name or "unknown"
    return RunFacts(run.name, flow, state, run.start_time, run.total_run_time.total_seconds())
