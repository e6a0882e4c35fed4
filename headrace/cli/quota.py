"""`headrace quota …`: what the quotas of this machine are doing."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.errors import ConfigurationError
from headrace.quota import parse_rates
from headrace.quota.selftest import run_selftest
from headrace.quota.status import QuotaStatus, inspect, known_names, reset_quota
from headrace.settings import load_settings

app = typer.Typer(help="Quotas: what they allow and who uses them.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else.")]


@app.callback()
def quota() -> None:
    """Quotas: what they allow and who uses them."""


@app.command()
def status(
    name: Annotated[str | None, typer.Argument(help="Of one quota; default: all.")] = None,
    as_json: Json = False,
) -> None:
    """Show rates, what of them is used, who waits and who was served, slow-down and health."""
    folder = load_settings().quota_folder
    names = [name] if name else known_names(folder)
    found = [inspect(folder, one) for one in names]
    if as_json:
        typer.echo(json.dumps({"quotas": [_as_dict(one) for one in found]}))
    elif not found:
        typer.echo(f"no quota was ever used in {folder}")
    for one in () if as_json else found:
        Console().print(_table(one))


@app.command()
def reset(
    name: Annotated[str, typer.Argument(help="As `headrace quota status` shows it.")],
    bookings: Annotated[
        bool,
        typer.Option(
            "--bookings",
            help="Forget the permits given, too: the server may then see up to twice the quota "
            "within the window at hand.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Forget a slow-down and a Retry-After of the server."""
    reset_quota(load_settings().quota_folder, name, bookings=bookings)
    what = "slow-down, pause and bookings" if bookings else "slow-down and pause"
    typer.echo(json.dumps({"name": name, "forgotten": what}) if as_json else f"{name}: {what} gone")


@app.command()
def bench(
    rate: Annotated[str, typer.Option(help="One rate, for example 100/s.")] = "100/s",
    processes: Annotated[int, typer.Option(min=1, max=64)] = 3,
    seconds: Annotated[float, typer.Option(min=1, max=600)] = 5.0,
    as_json: Json = False,
) -> None:
    """Measure a throw-away quota where the real ones live."""
    rates = parse_rates(rate)
    if len(rates) != 1:
        raise ConfigurationError(f"--rate {rate!r}: the measurement takes exactly one rate")
    folder = load_settings().quota_folder
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    result = run_selftest(folder, rates[0], processes, seconds)
    share = None if math.isnan(result.used_share) else round(result.used_share, 4)
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "uncontended_p50_ms": round(result.p50_ms, 3),
                    "uncontended_p99_ms": round(result.p99_ms, 3),
                    "permits": result.permits,
                    "over_limit": result.over_limit,
                    "used_share": share,
                    "fairness": round(result.fairness, 3),
                }
            )
        )
        return
    table = Table(title=f"{processes} processes at {rates[0]} for {seconds:g} s", show_header=False)
    table.add_row("uncontended permit", f"p50 {result.p50_ms:.3f} ms, p99 {result.p99_ms:.3f} ms")
    table.add_row("permits", str(result.permits))
    table.add_row("above the limit in any window", str(result.over_limit))
    table.add_row("used of the quota", "too short to tell" if share is None else f"{share:.2%}")
    table.add_row("fairness (Jain)", f"{result.fairness:.3f}")
    Console().print(table)


def _table(status: QuotaStatus) -> Table:
    book, breaker = status.book, status.breaker
    # As Text: a name comes from outside and must not be read as markup.
    table = Table(title=Text(f"{status.name}: {status.health}"), show_header=False)
    for window in book.windows:
        table.add_row(str(window.rate), f"{window.used} of {window.rate.limit} used")
    waiting = ", ".join(f"{lane.name.lower()} {count}" for lane, count in book.waiting.items())
    table.add_row("waiting", waiting)
    for process in book.processes:
        table.add_row(f"process {process.pid}", f"{process.grants} permits")
    table.add_row("speed", f"{100 / book.slowdown:.0f} % of the rates")
    if book.blocked_s:
        table.add_row("Retry-After", f"{book.blocked_s:.1f} s to go")
    state = f"{breaker.phase.value}, {breaker.failures} failures in a row"
    if breaker.reopens_in_s:
        state += f", next probe in {breaker.reopens_in_s:.0f} s"
    table.add_row("breaker", state)
    return table


def _as_dict(status: QuotaStatus) -> dict[str, Any]:
    book, breaker = status.book, status.breaker
    return {
        "name": status.name,
        "health": status.health,
        "windows": [
            {"rate": str(window.rate), "limit": window.rate.limit, "used": window.used}
            for window in book.windows
        ],
        "waiting": {lane.name.lower(): count for lane, count in book.waiting.items()},
        "processes": [{"pid": one.pid, "grants": one.grants} for one in book.processes],
        "slowdown": book.slowdown,
        "blocked_s": book.blocked_s,
        "breaker": {
            "phase": breaker.phase.value,
            "failures": breaker.failures,
            "reopens_in_s": breaker.reopens_in_s,
            "outage_s": breaker.outage_s,
        },
    }
