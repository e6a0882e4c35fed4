"""Run a pipeline's flow here: parameters in, a report and an exit code out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing
from importlib import import_module
from typing import Any, NoReturn

import typer

from headrace.cli.common import say_error
from headrace.cli.display import Display
from headrace.cli.exit_codes import Exit, exit_of_error, exit_of_report
from headrace.cli.server import api_for_run, bounded_exit
from headrace.cli.server.run import next_step
from headrace.errors import HeadraceError
from headrace.leases import give_back_claims
from headrace.run.report import Report, log_end
from headrace.settings import load_settings
from headrace.signals import leave_on_signals
from headrace.stdout import abandon_stdout

#: How long the last logs and events may take to reach the UI.
DRAIN_S, INTERRUPTED_DRAIN_S = 5.0, 1.5


def run_pipeline(
    flow: str,
    parameters: Mapping[str, Any],
    display: Display,
    admitted: AbstractContextManager[Report | None],
    *,
    as_json: bool,
) -> NoReturn:
    """Have an API, run the flow, show its report and end the process with its exit code."""
    code = Exit.FAILED
    try:
        with leave_on_signals(give_back_claims), admitted as refused:
            if refused is None:
                report = report_of(flow, parameters, display)
            else:
                report = refused
                log_end(report)
    except HeadraceError as error:
        say_error(error)
        code = exit_of_error(error)
    else:
        code = exit_of_report(report)
        if as_json:
            typer.echo(json.dumps(report.as_json()))
        else:
            _show(display, report)
    bounded_exit(code, drain_s=INTERRUPTED_DRAIN_S if code == Exit.INTERRUPTED else DRAIN_S)


def _show(display: Display, report: Report) -> None:
    """The table of what a run did; that it cannot be written does not change what the run did."""
    try:
        display.show(report)
    except OSError as error:
        abandon_stdout()
        reason = error.strerror or str(error)
        say_error(
            HeadraceError(
                f"what the run did cannot be shown (standard output: {reason})",
                hint=f"It ended as: {report.headline()}",
            )
        )


def report_of(flow: str, parameters: Mapping[str, Any], display: Display) -> Report:
    """Run the flow with its parameters; return what it did, whatever Prefect can record of it.

    Raises:
        HeadraceError: the run could not begin, or broke off.
    """

    def imported() -> None:
        import_module(f"flows.{flow}")

    with api_for_run(load_settings().home, say=display.say, while_starting=imported):
        function: Callable[..., Any] = getattr(import_module(f"flows.{flow}"), flow)
        observing = import_module("tasks.kernel").observing
        with observing(display), closing(display):
            problem = _run(function, parameters)
    if display.report is not None:
        return display.report
    if isinstance(problem, HeadraceError):
        raise problem
    raise HeadraceError(f"the run broke off: {problem}", hint=next_step(problem)) from problem


def _run(function: Callable[..., Any], parameters: Mapping[str, Any]) -> BaseException | None:
    """What broke the run, if anything did; its report may have been given before that."""
    try:
        state = function(**parameters, return_state=True)
    except Exception as error:  # noqa: BLE001 - an API that died raises of its own kinds here
        return error
    outcome = state.result(raise_on_failure=False)
    return outcome if isinstance(outcome, BaseException) else None
