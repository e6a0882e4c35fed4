"""`headrace audit`: the flow, run here, with the options that its form has."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.audit.report import AuditReport
from headrace.audit.request import AuditRequest
from headrace.audit.wording import ending, remarks, summary_row, totals_line
from headrace.cli.console import silence_prefect_console
from headrace.cli.exits import Exit, exit_of_error, exit_of_status
from headrace.cli.options import command
from headrace.cli.pull import DRAIN_S, INTERRUPTED_DRAIN_S
from headrace.cli.server import api_for_run, bounded_exit
from headrace.cli.server.run import say_on_stderr
from headrace.errors import HeadraceError
from headrace.pull.receipts import Status
from headrace.settings import load_settings

_STYLES = {
    Status.DONE: "green",
    Status.PARTIAL: "yellow",
    Status.FAILED: "red",
    Status.RUNNING_ELSEWHERE: "cyan",
}

#: What fits a terminal of 80 columns; the UI and `--json` have the rest.
_COLUMNS = ("product", "status", "trades", "watermark", "newest", "missing", "wrong", "notes")
_WORDS = ("product", "status")


def _audit(parameters: dict[str, Any], as_json: bool) -> None:
    AuditRequest.checked(**parameters)
    try:
        report = _report_of(parameters, _mute if as_json else say_on_stderr)
    except HeadraceError as error:
        typer.echo(f"headrace: {error}", err=True)
        bounded_exit(exit_of_error(error), drain_s=DRAIN_S)
    if as_json:
        typer.echo(json.dumps(report.as_json()))
    else:
        show(report, Console())
    if report.stopped:
        bounded_exit(Exit.INTERRUPTED, drain_s=INTERRUPTED_DRAIN_S)
    bounded_exit(exit_of_status(report.status), drain_s=DRAIN_S)


def show(report: AuditReport, console: Console) -> None:
    """The table of products, then what was done and found."""
    console.print(audit_table(report))
    for line in (*remarks(report), totals_line(report)):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def audit_table(report: AuditReport) -> Table:
    """One row per product."""
    table = Table(title=ending(report), title_justify="left", title_style="bold")
    for name in _COLUMNS:
        table.add_column(name, justify="left" if name in _WORDS else "right", no_wrap=True)
    for audited in report.products:
        row = summary_row(audited)
        cells = (str(row[name]) if name in _WORDS else f"{row[name]:,}" for name in _COLUMNS)
        table.add_row(*map(Text, cells), style=_STYLES[audited.status])
    return table


def _report_of(parameters: Mapping[str, Any], say: Callable[[str], None]) -> AuditReport:
    """Run the flow with its parameters; what it found.

    Raises:
        HeadraceError: the audit could not begin, or broke off.
    """
    silence_prefect_console()

    def imported() -> None:
        import_module("flows.audit")

    with api_for_run(load_settings().home, say=say, while_starting=imported):
        flow: Callable[..., Any] = import_module("flows.audit").audit
        try:
            outcome = flow(**parameters, return_state=True).result(raise_on_failure=False)
        except Exception as error:  # noqa: BLE001 - an API that died raises of its own kinds here
            outcome = error
    if isinstance(outcome, AuditReport):
        return outcome
    if isinstance(outcome, HeadraceError):
        raise outcome
    raise HeadraceError(
        f"the audit broke off: {outcome}", hint="headrace status tells whether the server runs"
    )


def _mute(_line: str) -> None:
    """Say nothing: standard error stays empty for `--json`, too."""


audit = command(
    AuditRequest,
    _audit,
    name="audit",
    text="""Find out whether products are complete and sound in the lake; with --heal, make them so.

    Exit code 0: complete and sound; 4: something is missing or wrong, and named.
    """,
)
