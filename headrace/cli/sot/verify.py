"""`headrace sot verify`: the flow, run here."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.sot.options import AsJson, Heads, Processes, StoreOption, SymbolsOption
from headrace.cli.sot.running import run_sot_flow
from headrace.sot.requests import VerifyMode, VerifyRequest


def verify(
    store: StoreOption = "",
    mode: Annotated[
        VerifyMode, typer.Option(help="Everything, what is new since the last time, or a sample.")
    ] = "full",
    symbols: SymbolsOption = None,
    blocks: Annotated[
        int, typer.Option(min=1, max=100_000, help="Blocks of each symbol that a sample takes.")
    ] = 8,
    processes: Processes = -1,
    heads: Heads = True,
    as_json: AsJson = False,
) -> None:
    """Find any damage, gap, fork or reordering in the log, and name it.

    Exit code 0: nothing is wrong; 4: something is, and is named; 1: nothing good was found.
    """
    parameters = {name: value for name, value in locals().items() if name != "as_json"}
    parameters["symbols"] = symbols or []
    run_sot_flow("sot_verify", parameters, VerifyRequest, as_json=as_json)
