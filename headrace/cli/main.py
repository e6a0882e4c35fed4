"""The `headrace` command: the flows, run here, and the tools around them."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from headrace import __version__
from headrace.cli import (
    blocks,
    breaker,
    checkpoint,
    lease,
    looker,
    metrics,
    pull,
    quota,
    sim,
    sot,
    up,
)
from headrace.cli.alarms import command as alarms
from headrace.cli.audit import audit
from headrace.cli.common import CommonOptionsGroup, LogFormat, LogLevel, say_error, set_up_logs
from headrace.cli.demo import demo
from headrace.cli.doctor import doctor
from headrace.cli.exits import Exit, exit_of_error
from headrace.cli.products import products
from headrace.errors import HeadraceError
from headrace.output import abandon_stdout
from headrace.wire import keep_loopback_direct

app = typer.Typer(
    name="headrace",
    help="Pulls everything a rate-limited API will give, exactly once, as fast as its quota "
    "allows, and shows it in Prefect.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    cls=CommonOptionsGroup,
)
app.command("up")(up.up)
app.command("down")(up.down)
app.command("status")(up.status)
app.command("doctor")(doctor)
app.command("demo")(demo)
app.command("backfill")(pull.backfill)
app.command("ingest")(pull.ingest)
app.command("audit")(audit)
app.command("products")(products)
app.add_typer(blocks.app, name="blocks")
app.add_typer(alarms.app, name="alarms")
app.add_typer(checkpoint.app, name="checkpoint")
app.add_typer(lease.app, name="lease")
app.add_typer(looker.app, name="looker")
app.add_typer(quota.app, name="quota")
app.add_typer(breaker.app, name="breaker")
app.add_typer(metrics.app, name="metrics")
app.add_typer(sim.app, name="sim")
app.add_typer(sot.app, name="sot")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"headrace {__version__}")
        raise typer.Exit


@app.callback()
def common(
    ctx: typer.Context,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and end.", is_eager=True, callback=_print_version
        ),
    ] = False,
    log_format: LogFormat = None,
    log_level: LogLevel = None,
) -> None:
    """Pull everything a rate-limited API will give, exactly once."""
    set_up_logs(ctx, log_format, log_level)


def main() -> None:
    """Run the command line; errors that we foresaw become one line and an exit code."""
    keep_loopback_direct(os.environ)
    try:
        app(prog_name="headrace")
    except HeadraceError as error:
        say_error(error)
        sys.exit(exit_of_error(error))
    except OSError as error:
        # What our parts know how to name they have named; what is left is most often the output.
        abandon_stdout()
        what = error.filename or "standard output"
        say_error(HeadraceError(f"{what}: {error.strerror or error}"))
        sys.exit(Exit.FAILED)
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)


if __name__ == "__main__":
    main()
