"""`headrace looker extract`: the flow, run here, with the options that its form has."""

from __future__ import annotations

import json
from typing import Any

import typer

from headrace.cli.common import logs_are_json, say_error
from headrace.cli.exits import Exit, exit_of_error, exit_of_status
from headrace.cli.looker.extract_display import ExtractDisplay
from headrace.cli.options import command
from headrace.cli.pull import DRAIN_S, INTERRUPTED_DRAIN_S, summary_of
from headrace.cli.server import bounded_exit
from headrace.errors import HeadraceError
from headrace.leases import LeaseHeld, claim, give_back_claims, open_leases
from headrace.looker.extract.request import ExtractRequest
from headrace.looker.turns import refused, vault_lease
from headrace.settings import load_settings
from headrace.signals import leave_on_signals


def _run(parameters: dict[str, Any], as_json: bool) -> None:
    """Check the parameters, have an API, run the flow and end the process with its exit code."""
    from headrace.looker.client import connection_from_environment
    from headrace.pull.request import BLOCK_PREFIX

    request = ExtractRequest.checked(**parameters)
    if not request.base_url.startswith(BLOCK_PREFIX):
        # What is missing is said before a server is started; a block needs the server.
        connection_from_environment(request.base_url)
    display: Any = ExtractDisplay(quiet=as_json, as_lines=logs_are_json())
    code = Exit.FAILED
    try:
        summary = _summary(request, parameters, display)
    except HeadraceError as error:
        say_error(error)
        code = exit_of_error(error)
    else:
        if as_json:
            typer.echo(json.dumps(summary.as_json()))
        else:
            display.show(summary)
        code = Exit.INTERRUPTED if summary.stopped else exit_of_status(summary.status)
    bounded_exit(code, drain_s=INTERRUPTED_DRAIN_S if code == Exit.INTERRUPTED else DRAIN_S)


def _summary(request: ExtractRequest, parameters: dict[str, Any], display: Any) -> Any:
    """What the flow did. The vault is claimed before Prefect is loaded (see `docs/leases.md`)."""
    settings = load_settings()
    leases, name = open_leases(settings.lease_location), vault_lease(request.vault)
    try:
        with leave_on_signals(give_back_claims), claim(leases, name, ttl_s=settings.lease_ttl_s):
            return summary_of("looker", parameters, display)
    except LeaseHeld as held:
        return refused(request, held)


extract = command(
    ExtractRequest,
    _run,
    name="extract",
    text="""Bring the content of a Looker into a vault; a second run goes on where one broke off.

    Logs in with LOOKERSDK_CLIENT_ID and LOOKERSDK_CLIENT_SECRET, or with those of a Looker block.
    """,
)
