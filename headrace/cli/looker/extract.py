"""`headrace looker extract`: the flow, run here, with the options that its form has."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from headrace.cli.common import logs_are_json, say_error
from headrace.cli.exits import Exit, exit_of_error, exit_of_status
from headrace.cli.looker.extract_display import ExtractDisplay
from headrace.cli.pull import DRAIN_S, INTERRUPTED_DRAIN_S, AsJson, summary_of
from headrace.cli.server import bounded_exit
from headrace.errors import HeadraceError
from headrace.leases import LeaseHeld, claim, give_back_claims, open_leases
from headrace.looker.content import TYPES
from headrace.looker.extract.request import MOST_WORKERS, ExtractRequest, default_workers
from headrace.looker.turns import refused, vault_lease
from headrace.settings import load_settings
from headrace.signals import leave_on_signals

DEFAULT_WORKERS = default_workers()

TypesOption = Annotated[
    list[str],
    typer.Option(
        "--types",
        "--type",
        "-t",
        help=f"Content types, repeatable or joined by commas; default: all. {', '.join(TYPES)}.",
    ),
]
FolderIds = Annotated[
    list[str],
    typer.Option(
        "--folder-ids",
        "--folder-id",
        help="Only dashboards and looks in these folders; repeatable or joined by commas.",
    ),
]
Recursive = Annotated[bool, typer.Option("--recursive", help="And in the folders below them.")]
Incremental = Annotated[
    bool, typer.Option("--incremental", help="Only bodies that changed, as far as listings tell.")
]
Full = Annotated[
    bool, typer.Option("--full", help="Begin anew, whatever an earlier run left unfinished.")
]
Resume = Annotated[
    bool, typer.Option("--resume/--no-resume", help="Go on with an unfinished run like this one.")
]
WorkersOption = Annotated[int, typer.Option(min=1, max=MOST_WORKERS, help="Requests at once.")]
BatchSize = Annotated[int, typer.Option(min=1, max=5000, help="Items on a page.")]
VaultOption = Annotated[str, typer.Option(help="The vault. [HEADRACE_LOOKER_VAULT]")]
BaseUrl = Annotated[
    str, typer.Option(help="Address of the Looker or block:NAME. [LOOKERSDK_BASE_URL]")
]
RateOption = Annotated[
    list[str],
    typer.Option(
        help="What the Looker allows: 10/s,100/m (repeatable), or block:NAME; none lifts it, for "
        "simulators. [HEADRACE_LOOKER_RATE]"
    ),
]
TimeoutS = Annotated[
    float, typer.Option(min=0, help="Seconds one request may take; 0: the connection's own.")
]
OutageLimit = Annotated[
    float, typer.Option(min=0, help="Seconds to wait for a Looker that is down.")
]


def extract(
    types: TypesOption = [],  # noqa: B006 - typer reads it, nobody changes it
    folder_ids: FolderIds = [],  # noqa: B006 - likewise
    recursive: Recursive = False,
    incremental: Incremental = False,
    full: Full = False,
    resume: Resume = True,
    workers: WorkersOption = DEFAULT_WORKERS,
    batch_size: BatchSize = 100,
    vault: VaultOption = "",
    base_url: BaseUrl = "",
    rate: RateOption = [],  # noqa: B006 - likewise
    timeout_s: TimeoutS = 0.0,
    outage_limit_s: OutageLimit = 1800.0,
    as_json: AsJson = False,
) -> None:
    """Bring the content of a Looker into a vault; a second run goes on where one broke off.

    Logs in with LOOKERSDK_CLIENT_ID and LOOKERSDK_CLIENT_SECRET, or with those of a Looker block.
    """
    parameters = {name: value for name, value in locals().items() if name != "as_json"}
    parameters["rate"] = ",".join(rate)
    _run(parameters, as_json=as_json)


def _run(parameters: dict[str, Any], *, as_json: bool) -> None:
    """Check the parameters, have an API, run the flow and end the process with its exit code."""
    from flows.looker_requests import looker_request
    from headrace.looker.client import connection_from_environment
    from headrace.pull.request import BLOCK_PREFIX

    request = looker_request(parameters)
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
