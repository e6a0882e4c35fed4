"""`headrace up`, `headrace down`, `headrace status`: the managed local Prefect server.

None of the three imports Prefect (1.1 s).
"""

from __future__ import annotations

import json
import sys
import time
from typing import Annotated, Any

import msgspec
import typer

from headrace.cli.server.configured import configured_api
from headrace.cli.server.managed import ManagedServer
from headrace.cli.server.status import ServerStatus, server_status
from headrace.settings import load_settings

JsonOption = Annotated[
    bool, typer.Option("--json", help="One JSON object on stdout and nothing else there.")
]


def up(
    port: Annotated[
        int | None,
        typer.Option(
            help="Port on 127.0.0.1. Default: the one used last, else 4200, else any free one.",
            min=1,
            max=65_535,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Start the local Prefect server and keep it up until `headrace down`."""
    began = time.monotonic()
    running = ManagedServer(load_settings().home).up(port=port)
    elapsed_s = round(time.monotonic() - began, 1)
    _warn_of_configured_api()
    if as_json:
        _print_json(
            {
                "ui_url": running.ui_url,
                "api_url": running.api_url,
                "port": running.port,
                "pid": running.record.pid,
                "started_now": running.started_now,
                "elapsed_s": elapsed_s,
            }
        )
        return
    state = f"up, started in {elapsed_s} s" if running.started_now else "up already"
    typer.echo(f"Prefect is {state}. UI: {running.ui_url}  (end it with `headrace down`)")


def down(as_json: JsonOption = False) -> None:
    """Stop the local Prefect server and what runs beside it; runs and settings are kept."""
    server = ManagedServer(load_settings().home)
    in_use = server.in_use_now()
    stopped = server.down()
    if in_use:
        _warn("A headrace command was using it: its work goes on, but the UI will not show it all.")
    if as_json:
        _print_json({"stopped": stopped})
    else:
        typer.echo(f"Stopped: {', '.join(stopped)}." if stopped else "Nothing was up.")


def status(as_json: JsonOption = False) -> None:
    """Show whether the local Prefect server is up, where, since when, and how big it is.

    Exit code 0 in either case; ask `--json` for `running` in a script.
    """
    state = server_status(ManagedServer(load_settings().home))
    if as_json:
        _print_json(msgspec.to_builtins(state))
    else:
        typer.echo("\n".join(_lines(state)))


def _lines(state: ServerStatus) -> list[str]:
    lines = []
    if state.process is None:
        lines.append("Prefect is down. Start it with `headrace up`.")
    else:
        answers = "" if state.answers else " but does not answer"
        stays = "until `headrace down`" if state.kept else "until the command that uses it ends"
        since = state.process.since.isoformat(sep=" ")
        lines += [
            f"Prefect {state.version or ''} is up{answers}: {state.ui_url}",
            f"  since     {since} (pid {state.process.pid}), {stays}",
            f"  in use    {'yes' if state.in_use else 'no'}",
            f"  log       {state.process.log}",
        ]
    lines += [f"  beside    {other.name} (pid {other.pid}), {other.log}" for other in state.beside]
    lines.append(f"  database  {state.database} ({state.database_bytes / 2**20:.1f} MiB)")
    if state.configured_api:
        lines.append(f"Commands use {state.configured_api} instead ({state.configured_by}).")
    return lines


def _warn_of_configured_api() -> None:
    configured = configured_api()
    if configured is not None:
        _warn(f"Commands will use {configured.api_url} instead ({configured.source}).")


def _warn(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _print_json(answer: dict[str, Any]) -> None:
    typer.echo(json.dumps(answer))
