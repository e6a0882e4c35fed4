"""`headrace breaker …`: whether a server is left alone at the moment, and closing that by hand."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from headrace.quota.status import BreakerStatus, inspect_breaker, known_names, open_breaker
from headrace.settings import load_settings

app = typer.Typer(help="Circuit breakers of servers.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else.")]


@app.callback()
def breaker() -> None:
    """Circuit breakers of servers."""


@app.command()
def status(
    name: Annotated[str | None, typer.Argument(help="Of one breaker; default: all.")] = None,
    as_json: Json = False,
) -> None:
    """Show the phase of each breaker."""
    folder = load_settings().quota_folder
    found = {one: inspect_breaker(folder, one) for one in ([name] if name else known_names(folder))}
    if as_json:
        typer.echo(json.dumps({"breakers": [_as_dict(*item) for item in found.items()]}))
    elif not found:
        typer.echo(f"no breaker was ever used in {folder}")
    else:
        for item in found.items():
            typer.echo(_line(*item))


@app.command()
def reset(
    name: Annotated[str, typer.Argument(help="As `headrace breaker status` shows it.")],
    as_json: Json = False,
) -> None:
    """Close a breaker by hand: requests go again at once."""
    with open_breaker(load_settings().quota_folder, name) as opened:
        before = opened.state().phase.value
        opened.reset()
    if as_json:
        typer.echo(json.dumps({"name": name, "before": before, "after": "closed"}))
    else:
        typer.echo(f"{name}: closed (it was {before})")


def _line(name: str, status: BreakerStatus) -> str:
    line = f"{name}: {status.phase.value}, {status.failures} failures in a row"
    if status.outage_s:
        line += f", failing for {status.outage_s:.0f} s"
    if status.reopens_in_s:
        line += f", next probe in {status.reopens_in_s:.0f} s"
    return line


def _as_dict(name: str, status: BreakerStatus) -> dict[str, Any]:
    return {
        "name": name,
        "phase": status.phase.value,
        "failures": status.failures,
        "reopens_in_s": status.reopens_in_s,
        "outage_s": status.outage_s,
    }
