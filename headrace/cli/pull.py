"""`headrace backfill` and `ingest`: the flows, run here, with the options that their forms have."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from importlib import import_module
from typing import Any

import typer

from headrace.cli.common import logs_are_json, say_error
from headrace.cli.console import silence_prefect_console
from headrace.cli.display import Display
from headrace.cli.exits import Exit, exit_of_error, exit_of_summary
from headrace.cli.options import command
from headrace.cli.server import api_for_run, bounded_exit
from headrace.errors import HeadraceError
from headrace.leases import give_back_claims
from headrace.pull.admission import admission, refused
from headrace.pull.loglines import log_run
from headrace.pull.receipts import Summary
from headrace.pull.request import IngestRequest, PullRequest
from headrace.settings import load_settings
from headrace.signals import leave_on_signals

#: How long the last logs and events may take to reach the UI.
DRAIN_S, INTERRUPTED_DRAIN_S = 5.0, 1.5


def run_flow(
    name: str, kind: type[PullRequest], parameters: Mapping[str, Any], *, as_json: bool
) -> None:
    """Check the parameters, have an API, run the flow and end the process with its exit code.

    Raises:
        ConfigurationError: a parameter cannot be used; nothing was started.
    """
    request, settings = kind.checked(**parameters), load_settings()
    display = Display(quiet=as_json, as_lines=logs_are_json())
    code, began = Exit.FAILED, time.monotonic()
    try:
        with (
            leave_on_signals(give_back_claims),
            admission(
                request, leases=settings.lease_location, ttl_s=settings.lease_ttl_s
            ) as others,
        ):
            if len(others) < len(request.products):
                summary = summary_of(name, parameters, display)
            else:
                summary = refused(request, others, elapsed_s=time.monotonic() - began)
                log_run(summary)
    except HeadraceError as error:
        say_error(error)
        code = exit_of_error(error)
    else:
        if as_json:
            typer.echo(json.dumps(summary.as_json()))
        else:
            display.show(summary)
        code = exit_of_summary(summary)
    bounded_exit(code, drain_s=INTERRUPTED_DRAIN_S if code == Exit.INTERRUPTED else DRAIN_S)


def summary_of(name: str, parameters: Mapping[str, Any], display: Display) -> Summary:
    """Run the flow with its parameters; return what it did, whatever Prefect can record of it.

    Raises:
        HeadraceError: the run could not begin, or broke off.
    """
    silence_prefect_console()

    def imported() -> None:
        import_module(f"flows.{name}")

    with api_for_run(load_settings().home, say=display.say, while_starting=imported):
        flow: Callable[..., Any] = getattr(import_module(f"flows.{name}"), name)
        observing = import_module("tasks.observers").observing
        with observing(display), closing(display):
            problem = _run(flow, parameters)
    if display.summary is not None:
        return display.summary
    if isinstance(problem, HeadraceError):
        raise problem
    raise HeadraceError(
        f"the run broke off: {problem}", hint="headrace status tells whether the server runs"
    ) from problem


def _run(flow: Callable[..., Any], parameters: Mapping[str, Any]) -> BaseException | None:
    """What broke the run, if anything did; a summary may have been told before that."""
    try:
        state = flow(**parameters, return_state=True)
    except Exception as error:  # noqa: BLE001 - an API that died raises of its own kinds here
        return error
    outcome = state.result(raise_on_failure=False)
    return outcome if isinstance(outcome, BaseException) else None


backfill = command(
    PullRequest,
    lambda parameters, as_json: run_flow("backfill", PullRequest, parameters, as_json=as_json),
    name="backfill",
    text="Fetch every trade of some products that is not in the lake yet.",
)
ingest = command(
    IngestRequest,
    lambda parameters, as_json: run_flow("ingest", IngestRequest, parameters, as_json=as_json),
    name="ingest",
    text="Fetch what is new of some products since the last run.",
)
