"""`headrace sot migrate`: the flow, run here."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.sot.options import AsJson, StoreOption
from headrace.cli.sot.running import run_sot_flow
from headrace.sot.requests import MigrateAction, MigrateRequest


def migrate(
    old: Annotated[str, typer.Argument(help="The unsharded log: an SQLite file.")],
    store: StoreOption = "",
    action: Annotated[MigrateAction, typer.Option(help="The step to take.")] = "status",
    source: Annotated[
        str, typer.Option(help="For write: the engine's stream, chained over all symbols.")
    ] = "",
    batch: Annotated[
        int, typer.Option(min=1, max=100_000, help="Records of a symbol per commit.")
    ] = 500,
    as_json: AsJson = False,
) -> None:
    """Lead an unsharded log over into the sharded one: begin, backfill, compare, switch, end.

    Exit code 0: done; 4: the logs differ, or one is behind; 2: the step does not lead on from here.
    """
    parameters = {name: value for name, value in locals().items() if name != "as_json"}
    run_sot_flow("sot_migrate", parameters, MigrateRequest, as_json=as_json)
