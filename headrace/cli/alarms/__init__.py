"""`headrace alarms …`: alarms as automations of a Prefect server (docs/alarms.md).

`catalogue` defines them, `addresses` saves where they go, `installing` brings them to a server and
imports Prefect, `smtp` is the block that sends them as mail.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from headrace.cli.alarms.addresses import mail, slack, webhook
from headrace.cli.alarms.catalogue import (
    BREAKER_OPEN,
    DATA_OLD,
    NOT_SERVED,
    NOT_STARTED,
    RUN_FAILED,
    RUN_PARTIAL,
    SHORTEST,
    THROTTLED,
    alarms,
    in_words,
)
from headrace.cli.common import Json, print_json, table_of
from headrace.cli.server.run import with_client
from headrace.errors import ConfigurationError
from headrace.pull.request import parse_span

if TYPE_CHECKING:
    from headrace.cli.alarms.installing import InstalledAlarm

app = typer.Typer(
    help="Alarms: Prefect automations on failed runs, old data, gaps and more; where they go.",
    no_args_is_help=True,
)

Answer = TypeVar("Answer")


@app.command()
def install(
    to: Annotated[
        str | None,
        typer.Option(
            help="Block that messages go through, as TYPE/NAME: slack-webhook/ops, "
            "sendgrid-email/ops, webhook/ops. Without it they show in the UI only."
        ),
    ] = None,
    on: Annotated[
        bool | None,
        typer.Option(
            "--on/--paused",
            help="Switch all on or off. Without it, switches stay as they are; new ones are off.",
        ),
    ] = None,
    breaker_open: Annotated[
        str, typer.Option(help="How long a breaker may be open, such as 15m.")
    ] = "15m",
    data_old: Annotated[str, typer.Option(help="How old data may be, such as 1h.")] = "1h",
    not_started: Annotated[
        str,
        typer.Option(help="How long schedules may stand still, and a run that is due may wait."),
    ] = "15m",
    throttled: Annotated[
        str, typer.Option(help="How long a quota may be slowed down by answers 429, such as 1h.")
    ] = "1h",
    run_failed: Annotated[
        str,
        typer.Option(
            help="How long an alarm of a failed or partial run keeps quiet about the same flow, "
            "also about another cause."
        ),
    ] = "1h",
    as_json: Json = False,
) -> None:
    """Install all alarms, or update them; repeating it is harmless."""
    waits = {
        BREAKER_OPEN: _wait("--breaker-open", breaker_open),
        DATA_OLD: _wait("--data-old", data_old),
        NOT_SERVED: _wait("--not-started", not_started),
        NOT_STARTED: _wait("--not-started", not_started),
        THROTTLED: _wait("--throttled", throttled),
        RUN_FAILED: _wait("--run-failed", run_failed),
        RUN_PARTIAL: _wait("--run-failed", run_failed),
    }
    _show(_call("install", alarms(waits), to=to, enabled=on), as_json)


for command in (slack, webhook, mail):
    app.command()(command)


@app.command()
def test(
    to: Annotated[str, typer.Option(help="Block to send through, as TYPE/NAME: webhook/ops.")],
) -> None:
    """Send a test message through a block, from this machine."""
    _call("try_out", to)
    typer.echo(f"{to} took the message.")


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List the alarms of the server: whether they are on, and where their messages go."""
    _show(_call("installed"), as_json)


@app.command()
def remove(as_json: Json = False) -> None:
    """Delete all alarms from the server."""
    names: list[str] = _call("remove")
    if as_json:
        print_json({"removed": names})
    else:
        typer.echo(f"Removed: {', '.join(names)}." if names else "There were none.")


def _call(name: str, *arguments: Any, **options: Any) -> Any:
    """Call a function of `installing` with a client, Prefect being imported only now."""

    def call(client: Any) -> Awaitable[Any]:
        module = import_module("headrace.cli.alarms.installing")
        function: Callable[..., Awaitable[Any]] = getattr(module, name)
        return function(client, *arguments, **options)

    return with_client(call)


def _wait(option: str, text: str) -> timedelta:
    try:
        length = parse_span(text)
    except ValueError as error:
        raise ConfigurationError(f"{option}: {error}") from error
    if length < SHORTEST:
        raise ConfigurationError(
            f"{option} {text}: Prefect looks in steps of some seconds; "
            f"the shortest wait is {in_words(SHORTEST)}"
        )
    return length


def _show(found: Sequence[InstalledAlarm], as_json: bool) -> None:
    if as_json:
        print_json({"alarms": [{**asdict(one), "to": list(one.to)} for one in found]})
        return
    if not found:
        typer.echo("No alarms there. Install them with `headrace alarms install`.")
        return
    from rich.console import Console

    shown = table_of(
        [
            {
                "alarm": one.key,
                "state": "on" if one.enabled else "paused",
                "goes to": ", ".join(one.to),
                "goes off when": one.description,
            }
            for one in found
        ],
        whole=("alarm", "state"),
    )
    Console().print(shown)
