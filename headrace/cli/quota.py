"""`headrace quota …` and `headrace breaker …`: quotas and their breakers, where they live."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from headrace.amounts import counted
from headrace.cli.common import Json, Yes, confirm, print_json, result_console
from headrace.cli.places import place_of_quotas
from headrace.errors import ConfigurationError
from headrace.quota import QuotaRate, parse_rates
from headrace.quota.location import QuotaServer
from headrace.quota.selftest import run_selftest
from headrace.quota.status import (
    BreakerStatus,
    QuotaStatus,
    check_known,
    drop_quota,
    inspect,
    inspect_breaker,
    known_names,
    open_breaker,
    reset_quota,
)
from headrace.settings import load_settings

app = typer.Typer(
    help="Quotas where HEADRACE_QUOTA says, or of this machine: rates, use, slow-downs, waiting "
    "processes.",
    no_args_is_help=True,
)
breaker_app = typer.Typer(
    help="Circuit breakers: show their phase, close one by hand.", no_args_is_help=True
)


@app.command()
def status(
    name: Annotated[str | None, typer.Argument(help="Of one quota; default: all.")] = None,
    as_json: Json = False,
) -> None:
    """Show rates, what of them is used, who waits and who was served, slow-down and health."""
    place = place_of_quotas(load_settings())
    names = [name] if name else known_names(place)
    found = [inspect(place, one) for one in names]
    if as_json:
        print_json({"quotas": [quota_dict(one) for one in found]})
    elif not found:
        typer.echo(f"no quota was used yet in {place}")
    for one in () if as_json else found:
        result_console().print(_table(one))


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
    reset_quota(place_of_quotas(load_settings()), name, bookings=bookings)
    what = "slow-down, pause and bookings" if bookings else "slow-down and pause"
    if as_json:
        print_json({"name": name, "forgotten": what})
    else:
        typer.echo(f"{name}: {what} reset")


@app.command()
def drop(
    name: Annotated[str, typer.Argument(help="As `headrace quota status` shows it.")],
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Remove a quota and its breaker from the server that machines share."""
    place = place_of_quotas(load_settings())
    if not isinstance(place, QuotaServer):
        raise ConfigurationError(
            f"{place} is a folder of this machine",
            hint="Move the files of the quota away while no run is under way",
        )
    check_known(place, name)
    if not yes:
        confirm(f"Remove {name} from {place}, with what it has given?", refusal="nothing removed")
    drop_quota(place, name)
    if as_json:
        print_json({"name": name, "dropped": True})
    else:
        typer.echo(f"{name}: removed from {place}")


@app.command()
def bench(
    rate: Annotated[
        str, typer.Option(help="One rate, for example 100/s, which is the default.")
    ] = "",
    processes: Annotated[
        int, typer.Option(min=1, max=64, help="How many take permits at the same time.")
    ] = 3,
    seconds: Annotated[
        float, typer.Option(min=1, max=600, help="Length of the measurement.")
    ] = 5.0,
    keyed: Annotated[
        bool,
        typer.Option(
            "--keyed",
            help="Send requests with API keys to a simulated server; --rate is that of each key, "
            "20/s unless given.",
        ),
    ] = False,
    keys: Annotated[int, typer.Option(min=1, max=64, help="With --keyed: how many keys.")] = 5,
    delay: Annotated[
        str, typer.Option(help="With --keyed: the delay to the server, and that back.")
    ] = "uniform:low=0,high=0.05",
    clock_step_s: Annotated[
        float,
        typer.Option(
            help="With --keyed: all wall clocks step so many seconds ahead, and back, every 10 s."
        ),
    ] = 0.0,
    as_json: Json = False,
) -> None:
    """Measure how fast permits are given, on a temporary quota beside the real ones."""
    rates = parse_rates(rate or ("20/s" if keyed else "100/s"))
    if len(rates) != 1:
        raise ConfigurationError(f"--rate {rate!r}: the measurement takes exactly one rate")
    settings = load_settings()
    folder = settings.quota_folder
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if keyed:
        options = (keys, processes, seconds, delay, clock_step_s)
        _bench_keyed(folder, rates[0], *options, as_json=as_json)
        return
    result = run_selftest(place_of_quotas(settings), rates[0], processes, seconds)
    share = None if math.isnan(result.used_share) else round(result.used_share, 4)
    if as_json:
        print_json(
            {
                "uncontended_p50_ms": round(result.p50_ms, 3),
                "uncontended_p99_ms": round(result.p99_ms, 3),
                "permits": result.permits,
                "over_limit": result.over_limit,
                "used_share": share,
                "fairness": round(result.fairness, 3),
            }
        )
        return
    table = Table(title=f"{processes} processes at {rates[0]} for {seconds:g} s", show_header=False)
    table.add_row("uncontended permit", f"p50 {result.p50_ms:.3f} ms, p99 {result.p99_ms:.3f} ms")
    table.add_row("permits", str(result.permits))
    table.add_row("above the limit in any window", str(result.over_limit))
    table.add_row("used of the quota", "too short a time" if share is None else f"{share:.2%}")
    table.add_row("fairness (Jain)", f"{result.fairness:.3f}")
    result_console().print(table)


def _bench_keyed(
    folder: Path,
    rate: QuotaRate,
    keys: int,
    processes: int,
    seconds: float,
    delay: str,
    clock_step_s: float,
    *,
    as_json: bool,
) -> None:
    from headrace.delivery.selftest import WARM_UP_S, run_keyed_selftest  # not for `status`

    if seconds <= WARM_UP_S:
        raise ConfigurationError(
            f"--seconds {seconds:g}: with --keyed the first {WARM_UP_S:g} s do not count"
        )
    result = run_keyed_selftest(folder, rate, keys, processes, seconds, delay, clock_step_s)
    if as_json:
        print_json(asdict(result))
        return
    title = f"{keys} keys at {rate}, {processes} processes, {seconds:g} s"
    table = Table(title=title, show_header=False)
    table.add_row("successes", f"{result.per_s:.1f}/s, {result.used_share:.2%} of the quota")
    latency = "no answers"
    if result.mean_ms is not None and result.p99_ms is not None:
        latency = f"mean {result.mean_ms:.0f} ms, p99 {result.p99_ms:.0f} ms"
    table.add_row("departure to answer", latency)
    table.add_row("answers 429, 400", f"{result.throttled}, {result.nonces_refused}")
    table.add_row("blocked keys", str(result.blocked))
    table.add_row("fairness (Jain)", f"{result.fairness:.3f}")
    table.add_row("successes by second", " ".join(map(str, result.by_second)))
    result_console().print(table)


def _table(status: QuotaStatus) -> Table:
    book, breaker = status.book, status.breaker
    # As Text: a name comes from outside and must not be read as markup.
    table = Table(title=Text(f"{status.name}: {status.health}"), show_header=False)
    for window in book.windows:
        table.add_row(str(window.rate), f"{window.used} of {window.rate.limit} used")
    waiting = ", ".join(f"{lane.name.lower()} {count}" for lane, count in book.waiting.items())
    table.add_row("waiting", waiting)
    for process in book.processes:
        on = f" on {process.machine}" if process.machine else ""
        table.add_row(Text(f"process {process.pid}{on}"), f"{process.grants} permits")
    table.add_row("speed", f"{100 / book.slowdown:.0f} % of the rates")
    if book.blocked_s:
        table.add_row("Retry-After", f"{book.blocked_s:.1f} s to go")
    table.add_row("breaker", breaker_words(breaker))
    return table


def quota_dict(status: QuotaStatus) -> dict[str, Any]:
    """A quota and its breaker in JSON."""
    book, breaker = status.book, status.breaker
    return {
        "name": status.name,
        "health": status.health,
        "windows": [
            {"rate": str(window.rate), "limit": window.rate.limit, "used": window.used}
            for window in book.windows
        ],
        "waiting": {lane.name.lower(): count for lane, count in book.waiting.items()},
        "processes": [
            {"pid": one.pid, "machine": one.machine, "grants": one.grants} for one in book.processes
        ],
        "slowdown": book.slowdown,
        "blocked_s": book.blocked_s,
        "breaker": _breaker_dict(breaker),
    }


@breaker_app.command("status")
def breaker_status(
    name: Annotated[str | None, typer.Argument(help="Of one breaker; default: all.")] = None,
    as_json: Json = False,
) -> None:
    """Show the phase of each breaker."""
    place = place_of_quotas(load_settings())
    found = {one: inspect_breaker(place, one) for one in ([name] if name else known_names(place))}
    if as_json:
        rows = [{"name": one, **_breaker_dict(status)} for one, status in found.items()]
        print_json({"breakers": rows})
    elif not found:
        typer.echo(f"no breaker was used yet in {place}")
    else:
        for one, status in found.items():
            typer.echo(f"{one}: {breaker_words(status)}")


@breaker_app.command("reset")
def reset_breaker(
    name: Annotated[str, typer.Argument(help="As `headrace breaker status` shows it.")],
    as_json: Json = False,
) -> None:
    """Close a breaker by hand: requests are sent again at once."""
    with open_breaker(place_of_quotas(load_settings()), name) as opened:
        before = opened.state().phase.value
        opened.reset()
    if as_json:
        print_json({"name": name, "before": before, "after": "closed"})
    else:
        typer.echo(f"{name}: closed (it was {before})")


def breaker_words(status: BreakerStatus) -> str:
    """A breaker in words."""
    line = status.phase.value
    if status.failures:
        line += f", {counted(status.failures, 'failure')} in a row"
    if status.outage_s:
        line += f", failing for {status.outage_s:.0f} s"
    if status.reopens_in_s:
        line += f", next probe in {status.reopens_in_s:.0f} s"
    return line


def _breaker_dict(status: BreakerStatus) -> dict[str, Any]:
    return {
        "phase": status.phase.value,
        "failures": status.failures,
        "reopens_in_s": status.reopens_in_s,
        "outage_s": status.outage_s,
    }
