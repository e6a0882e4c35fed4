"""The commands of the log that are flows: run here, shown, ended with the exit code."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.cli.common import say_error
from headrace.cli.console import silence_prefect_console
from headrace.cli.exits import Exit, exit_of_error, exit_of_status
from headrace.cli.options import command
from headrace.cli.pull import DRAIN_S, INTERRUPTED_DRAIN_S
from headrace.cli.server import api_for_run, bounded_exit
from headrace.cli.server.run import say_on_stderr
from headrace.errors import ConfigurationError, HeadraceError
from headrace.settings import load_settings
from headrace.sot.reports import SotReport
from headrace.sot.requests import (
    MigrateRequest,
    RecoverRequest,
    SotRequest,
    VerifyRequest,
    WriteRequest,
)

_TICK_S = 0.5
#: Rows of a table on a terminal; `--json` has the rest.
_MOST_ROWS = 40
_MOST_PROBLEMS = 20


def _command(name: str, request: type[SotRequest], text: str) -> Callable[..., None]:
    """The command `headrace sot NAME`, which runs `flows.sot_NAME` here."""

    def run(parameters: dict[str, Any], as_json: bool) -> None:
        run_sot_flow(f"sot_{name}", parameters, request, as_json=as_json)

    return command(request, run, name=name, text=text)


def run_sot_flow(
    name: str, parameters: Mapping[str, Any], request: type[SotRequest], *, as_json: bool
) -> NoReturn:
    """Check the parameters, have an API, run `flows.NAME.NAME`, end the process.

    Args:
        name: of the flow's module and function.
        parameters: of the flow, as the command line gave them.
        request: the kind of request that they must make.
        as_json: one JSON object on stdout instead of a table.

    Raises:
        ConfigurationError: a parameter cannot be used; nothing was started.
    """
    request.checked(**parameters)
    if as_json and parameters.get("out") == "-":
        raise ConfigurationError(
            "standard output cannot hold both the replay and --json", hint="Name a file"
        )
    # A replay to standard output has it for itself.
    console = Console(stderr=parameters.get("out") == "-")
    code = Exit.FAILED
    try:
        report = _report_of(name, parameters, quiet=as_json)
    except HeadraceError as error:
        say_error(error)
        code = exit_of_error(error)
    else:
        if as_json:
            typer.echo(json.dumps(report.as_json()))
        else:
            show(report, console)
        code = Exit.INTERRUPTED if report.stopped else exit_of_status(report.status)
    bounded_exit(code, drain_s=INTERRUPTED_DRAIN_S if code == Exit.INTERRUPTED else DRAIN_S)


def show(report: SotReport, console: Console) -> None:
    """The table, the summary, and what was wrong."""
    if report.rows:
        console.print(report_table(report))
        if len(report.rows) > _MOST_ROWS:
            _say(console, f"and {len(report.rows) - _MOST_ROWS:,} more rows (--json has them)")
    for problem in report.problems[:_MOST_PROBLEMS]:
        _say(console, problem)
    if len(report.problems) > _MOST_PROBLEMS:
        more = len(report.problems) - _MOST_PROBLEMS
        _say(console, f"and {more:,} more (--json has them)")
    _say(console, f"{report.status.value}: {report.message}")


def report_table(report: SotReport) -> Table:
    """One line per shard or symbol."""
    table = Table(title=f"sot {report.action}", title_justify="left", title_style="bold")
    for name in report.rows[0]:
        table.add_column(name.replace("_", " "), justify="right", overflow="fold")
    for row in report.rows[:_MOST_ROWS]:
        table.add_row(*(Text(_cell(value)) for value in row.values()))
    return table


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _say(console: Console, line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def _report_of(name: str, parameters: Mapping[str, Any], *, quiet: bool) -> SotReport:
    """Run the flow; what it did.

    Raises:
        HeadraceError: it could not begin, or broke off.
    """
    silence_prefect_console()
    say: Callable[[str], None] = (lambda _line: None) if quiet else say_on_stderr

    def imported() -> None:
        import_module(f"flows.{name}")

    with api_for_run(load_settings().home, say=say, while_starting=imported):
        flow: Callable[..., Any] = getattr(import_module(f"flows.{name}"), name)
        try:
            with _progress_line(quiet=quiet):
                state = flow(**parameters, return_state=True)
            outcome = state.result(raise_on_failure=False)
        except Exception as error:  # noqa: BLE001 - an API that died raises of its own kinds here
            outcome = error
    if isinstance(outcome, SotReport):
        return outcome
    if isinstance(outcome, HeadraceError):
        raise outcome
    raise HeadraceError(
        f"the run broke off: {outcome}", hint="headrace status tells whether the server runs"
    )


@contextmanager
def _progress_line(*, quiet: bool) -> Iterator[None]:
    """How many records are done, on a terminal, while the flow runs."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield
        return
    over = threading.Event()
    runs = import_module("tasks.sot_runs").RUNS

    def follow() -> None:
        with console.status("starting") as line:
            while not over.wait(_TICK_S):
                for run in list(runs.values()):
                    line.update(run.progress.text)

    thread = threading.Thread(target=follow, name="sot-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


write = _command(
    "write",
    WriteRequest,
    """Put every record of a stream into its symbol's chain; what is there already stays.

    Exit code 0: all of it is stored; 4: some was not, and is named; 1: nothing was.
    """,
)
verify = _command(
    "verify",
    VerifyRequest,
    """Find any damage, gap, fork or reordering in the log, and name it.

    Exit code 0: nothing is wrong; 4: something is, and is named; 1: nothing good was found.
    """,
)
recover = _command(
    "recover",
    RecoverRequest,
    """Write the log as a stream equal to what came in; nothing damaged is handed on as good.

    Exit code 0: all of it; 4: a part, in OUT.partial, and why; 1: nothing could be replayed.
    """,
)
migrate = _command(
    "migrate",
    MigrateRequest,
    """Lead an unsharded log over into the sharded one: begin, backfill, compare, switch, end.

    Exit code 0: done; 4: the logs differ, or one is behind; 2: the step does not lead on from here.
    """,
)
