"""The `headrace` command: the flows, run here, and the tools around them."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from itertools import pairwise
from typing import Annotated, ClassVar, NoReturn

import typer

from headrace import __version__
from headrace.cli.common import (
    CommonOptionsGroup,
    LogFormat,
    LogLevel,
    asks_for_help,
    say_error,
    set_up_logs,
)
from headrace.cli.exit_codes import LIMITS_HINT, Exit, exit_of_error, unforeseen
from headrace.cli.lazy_commands import Lazy, LazyGroup
from headrace.errors import ConfigurationError, HeadraceError
from headrace.paths import working_folder
from headrace.stdout import abandon_stdout


class _Commands(LazyGroup, CommonOptionsGroup):
    """All commands, in the order of the help."""

    lazy: ClassVar[dict[str, Lazy]] = {
        "up": Lazy(
            "headrace.cli.up:up",
            "Start the local Prefect server with its deployments, and keep both until "
            "`headrace down`.",
        ),
        "down": Lazy(
            "headrace.cli.up:down",
            "Stop the local Prefect server and its deployments; runs and settings are kept.",
        ),
        "status": Lazy(
            "headrace.cli.up:status",
            "Show the local Prefect server: address, uptime, deployments, size of its database.",
        ),
        "top": Lazy(
            "headrace.cli.top:top", "Watch quotas, breakers, leases and runs, until Ctrl-C."
        ),
        "doctor": Lazy(
            "headrace.cli.doctor:doctor",
            "Check what runs need: settings, server, exchange, lake; name a remedy per problem.",
        ),
        "config": Lazy(
            "headrace.cli.config:app", "Settings: their values, and where they come from."
        ),
        "demo": Lazy(
            "headrace.cli.demo:demo",
            "Run a backfill against a simulated exchange that throttles and fails now and then.",
        ),
        "backfill": Lazy(
            "headrace.cli.pipelines:backfill",
            "Fetch all trades of products that the lake does not hold yet.",
        ),
        "ingest": Lazy(
            "headrace.cli.pipelines:ingest",
            "Fetch the newest trades of products, from where the last run ended.",
        ),
        "audit": Lazy(
            "headrace.cli.pipelines:audit",
            "Check that the lake holds every trade of its products, intact; --heal repairs it.",
        ),
        "check": Lazy(
            "headrace.cli.pipelines:check",
            "Hold the trades that are stored against bounds: complete, in order, plausible, fresh.",
        ),
        "transform": Lazy(
            "headrace.cli.pipelines:transform",
            "Bring the unified table up to date: typed, one table over all products, compacted.",
        ),
        "report": Lazy(
            "headrace.cli.report:report",
            "Make one HTML page of a lake: what is stored, and what not.",
        ),
        "query": Lazy("headrace.cli.query:query", "Ask a lake in SQL; nothing is written to it."),
        "products": Lazy(
            "headrace.cli.products:app",
            "The exchange's list of products, kept in the lake, and named sets of products.",
        ),
        "blocks": Lazy(
            "headrace.cli.blocks:app", "Prefect blocks: configuration that is saved on the server."
        ),
        "alarms": Lazy(
            "headrace.cli.alarms:app",
            "Alarms: Prefect automations on failed runs, old data, gaps and more; where they go.",
        ),
        "checkpoint": Lazy(
            "headrace.cli.checkpoint:app", "Checkpoints: what runs recorded of each product."
        ),
        "lease": Lazy(
            "headrace.cli.lease:app", "Leases: which process may write where; release one by hand."
        ),
        "looker": Lazy(
            "headrace.cli.looker:app", "Looker's content in a vault: extract, compare, restore."
        ),
        "quota": Lazy(
            "headrace.cli.quota:app",
            "Quotas where HEADRACE_QUOTA says, or of this machine: rates, use, slow-downs, waiting "
            "processes.",
        ),
        "requests": Lazy(
            "headrace.cli.requests:app",
            "Requests with a time to live, sent over one API key or many.",
        ),
        "breaker": Lazy(
            "headrace.cli.quota:breaker_app",
            "Circuit breakers: show their phase, close one by hand.",
        ),
        "metrics": Lazy("headrace.cli.metrics:app", "Metrics of runs, and alarms on them."),
        "sim": Lazy(
            "headrace.cli.sim:app",
            "Simulated servers (exchange, Looker, an exchange with API keys) for rehearsals.",
        ),
        "sot": Lazy(
            "headrace.cli.sot:app",
            "The source-of-truth log of an engine: write, read, prove, verify, recover, migrate.",
        ),
        "evidence": Lazy(
            "headrace.cli.evidence:app",
            "Evidence: the keys that sign heads of logs and manifests of lakes.",
        ),
    }


app = typer.Typer(
    name="headrace",
    help="Pulls everything a rate-limited API will give, exactly once, as fast as its quota "
    "allows, and shows it in Prefect.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    cls=_Commands,
)


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
    if not asks_for_help(ctx):
        from headrace.wire import keep_loopback_direct

        keep_loopback_direct(os.environ)


#: What a write to a pipe, a terminal or a full disk ends with.
_OF_OUTPUT = (errno.EPIPE, errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO, errno.EBADF)


def main() -> None:
    """Run the command line; whatever ends it becomes one line and an exit code."""
    try:
        app(prog_name="headrace")
    except HeadraceError as error:
        _end(error)
    except OSError as error:
        # What our parts know how to name they have named; what is left is most often the output.
        abandon_stdout()
        _end(_named(error))
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - a traceback is of no use to who runs a command
        if os.environ.get("HEADRACE_LOG_LEVEL") == "debug" or _asks_for_debug(sys.argv):
            traceback.print_exception(error)
        _end(unforeseen(error))


def _asks_for_debug(words: list[str]) -> bool:
    # Log lines are not written any more when the command has ended.
    return "--log-level=debug" in words or ("--log-level", "debug") in pairwise(words)


def _named(error: OSError) -> HeadraceError:
    if error.filename is None and error.errno == errno.ENOENT:
        try:
            working_folder()
        except ConfigurationError as gone:
            return gone
    reason = error.strerror or str(error)
    if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN):
        return HeadraceError(f"the machine gives this process no more ({reason})", hint=LIMITS_HINT)
    if error.filename is None:
        where = "standard output" if error.errno in _OF_OUTPUT else "the operating system"
    else:
        where = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else error.filename
    return HeadraceError(f"{where}: {reason}")


def _end(error: HeadraceError) -> NoReturn:
    say_error(error)
    sys.exit(exit_of_error(error))


if __name__ == "__main__":
    main()
