"""`headrace up`, `headrace down`, `headrace status`: the managed server and deployments.

None of the three imports Prefect (1.1 s).
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from headrace.amounts import counted, duration
from headrace.cli.common import Json, print_json
from headrace.cli.deployments.plan import default_plan_path, read_plan
from headrace.cli.deployments.serving import beside_of, wait_until_served
from headrace.cli.deployments.switches import Switch, switch_all, switches_of
from headrace.cli.server.configured import configured_api
from headrace.cli.server.managed import ManagedServer
from headrace.cli.server.schedules import Schedule
from headrace.cli.server.status import ServerStatus, server_status
from headrace.settings import load_settings


def up(
    port: Annotated[
        int | None,
        typer.Option(
            help="Port on 127.0.0.1. Default: the one used last, else 4200, else any free one.",
            min=1,
            max=65_535,
        ),
    ] = None,
    deployments: Annotated[
        Path | None,
        typer.Option(
            help="File with the deployments to serve. Default: the list that comes with headrace "
            "(in a checkout, its prefect.yaml).",
            show_default=False,
        ),
    ] = None,
    schedules: Annotated[
        bool | None,
        typer.Option(
            "--schedules/--no-schedules",
            help="Switch the schedules and triggers of that file on, or all of them off. Default: "
            "as they are; a new one is off.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Start the local Prefect server with its deployments, and keep both until `headrace down`.

    Nothing runs by itself until its schedule is switched on, with --schedules or in the UI. Runs
    that are started from the UI or by a schedule use the current folder of this command.
    """
    began = time.monotonic()
    plan = (deployments or default_plan_path()).absolute()
    read_plan(plan)
    server = ManagedServer(load_settings().home)
    running = server.up(port=port, beside=[beside_of(server, plan, Path.cwd())])
    served = wait_until_served(server)
    serves = read_plan(Path(served.plan))
    if schedules is None:
        planned = switches_of(running.port, serves)
    else:
        planned = switch_all(running.port, serves, on=schedules)
    elapsed_s = round(time.monotonic() - began, 1)
    _warn_of_configured_api()
    if served.plan != str(plan):
        _warn(f"{served.plan} is still served; `headrace down` first to serve {plan}.")
    if as_json:
        print_json(
            {
                "ui_url": running.ui_url,
                "api_url": running.api_url,
                "port": running.port,
                "pid": running.record.pid,
                "started_now": running.started_now,
                "deployments": served.deployments,
                "folder": served.folder,
                "schedules": {each.name: each.active for each in planned},
                "ignored": serves.ignored,
                "elapsed_s": elapsed_s,
            }
        )
        return
    state = f"up, started in {elapsed_s} s" if running.started_now else "up already"
    typer.echo(f"Prefect is {state}. UI: {running.ui_url}  (end it with `headrace down`)")
    typer.echo(
        f"{counted(len(served.deployments), 'deployment')} of {served.plan}; their runs use the "
        f"folder {served.folder}"
    )
    typer.echo(_schedule_line(planned))
    for line in serves.ignored:
        typer.echo(f"Ignored: {line}")
    here = Path.cwd() / "prefect.yaml"
    if deployments is None and here.is_file() and not here.samefile(served.plan):
        _warn(f"{here} is not served; `headrace up --deployments prefect.yaml` serves it.")


def _schedule_line(planned: list[Switch]) -> str:
    if on := [each.name for each in planned if each.active]:
        return f"Schedules on: {', '.join(on)}"
    return (
        "All schedules are off: nothing runs by itself. Switch them on with "
        "`headrace up --schedules` or in the UI"
    )


def down(
    vacuum: Annotated[
        bool,
        typer.Option(
            "--vacuum", help="Then free the disk space that the database no longer needs."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Stop the local Prefect server and its deployments; runs and settings are kept."""
    server = ManagedServer(load_settings().home)
    in_use = server.in_use_now()
    stopped = server.down()
    freed = server.vacuum() if vacuum else None
    if in_use:
        _warn("A headrace command was using it: it goes on, but the UI will not show all of it.")
    if as_json:
        answer: dict[str, Any] = {"stopped": stopped}
        if freed is not None:
            answer |= dict(zip(("bytes_before", "bytes_after"), freed, strict=True))
        print_json(answer)
        return
    typer.echo(f"Stopped: {', '.join(stopped)}." if stopped else "Nothing was up.")
    if freed is not None:
        before, after = (size / 2**20 for size in freed)
        typer.echo(f"Database: {before:.1f} MiB, now {after:.1f} MiB.")


def status(as_json: Json = False) -> None:
    """Show the local Prefect server: address, uptime, deployments, size of its database.

    Of each served deployment whose schedule is on, it shows the last run and the next one.

    Exit code 0 in either case; ask `--json` for `running` in a script.
    """
    state = server_status(ManagedServer(load_settings().home))
    if as_json:
        print_json(msgspec.to_builtins(state))
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
            f"  commands  {'some' if state.in_use else 'none'} of this machine "
            f"{'are using it' if state.in_use else 'is using it now'}",
            f"  log       {state.process.log}",
        ]
    lines += [f"  beside    {other.name} (pid {other.pid}), {other.log}" for other in state.beside]
    lines += [
        f"  stopped   {pid} ({process.name}); `kill -CONT {pid}` wakes it"
        for process in (state.process, *state.beside)
        if process is not None
        for pid in process.stopped
    ]
    lines += _serving_lines(state)
    lines.append(f"  database  {state.database} ({state.database_bytes / 2**20:.1f} MiB)")
    if state.configured_api:
        lines.append(f"Commands use {state.configured_api} instead ({state.configured_by}).")
    return lines


def _serving_lines(state: ServerStatus) -> list[str]:
    if state.serving is None:
        if state.process is None or not state.kept:
            return []
        return ["  serving   nothing, since what serves is gone; `headrace up` starts it again"]
    if state.serving.problem:
        return [f"  serving   nothing: {state.serving.problem}"]
    names = ", ".join(state.serving.deployments) or "not yet"
    lines = [f"  serving   {names}", f"            in {state.serving.folder}"]
    if state.serving.restarts:
        restarts = counted(state.serving.restarts, "time")
        lines.append(f"            restarted {restarts}, see its log")
    return lines + _schedule_lines(state, datetime.now(UTC))


def _schedule_lines(state: ServerStatus, now: datetime) -> list[str]:
    if state.schedules is None:
        return ["  schedules not known, since the server does not say"] if state.answers else []
    if not state.schedules:
        return ["  schedules all off; `headrace up --schedules` switches them on"]
    said = [
        f"{each.deployment}: {_last_words(each, now)}, {_next_words(each, now)}"
        for each in state.schedules
    ]
    return [f"  {'' if place else 'schedules':9} {line}" for place, line in enumerate(said)]


def _last_words(schedule: Schedule, now: datetime) -> str:
    last = schedule.last_run
    if last is None:
        return "no run yet"
    return f"last run {last.state} {_length(now - last.since)} ago"


def _next_words(schedule: Schedule, now: datetime) -> str:
    due = schedule.next_start
    if due is None:
        return "the next run is not planned yet"
    if due < now:
        return f"next run late by {_length(now - due)}"
    return f"next run in {_length(due - now)}"


def _length(length: timedelta) -> str:
    return duration(max(0.0, length.total_seconds()))


def _warn_of_configured_api() -> None:
    configured = configured_api()
    if configured is not None:
        _warn(f"Commands will use {configured.api_url} instead ({configured.source}).")


def _warn(line: str) -> None:
    sys.stderr.write(f"{line}\n")
