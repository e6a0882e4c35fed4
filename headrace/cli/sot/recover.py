"""`headrace sot recover`: the flow, run here."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.sot.options import AsJson, Heads, StoreOption, SymbolsOption
from headrace.cli.sot.running import run_sot_flow
from headrace.errors import ConfigurationError
from headrace.sot.requests import OutFormat, RecoverRequest


def recover(
    out: Annotated[str, typer.Argument(help="A new file, or - for standard output.")],
    store: StoreOption = "",
    format: Annotated[  # noqa: A002 - the option's name
        OutFormat, typer.Option(help="How the stream is written.")
    ] = "frames",
    symbols: SymbolsOption = None,
    past_damage: Annotated[
        bool,
        typer.Option("--past-damage", help="Go on with other symbols behind the damage of one."),
    ] = False,
    heads: Heads = True,
    as_json: AsJson = False,
) -> None:
    """Write the log as a stream equal to what came in; nothing damaged is handed on as good.

    Exit code 0: all of it; 4: a part, in OUT.partial, and why; 1: nothing could be replayed.
    """
    parameters = {name: value for name, value in locals().items() if name != "as_json"}
    parameters["symbols"] = symbols or []
    if as_json and out == "-":
        raise ConfigurationError(
            "standard output cannot hold both the replay and --json", hint="Name a file"
        )
    run_sot_flow("sot_recover", parameters, RecoverRequest, as_json=as_json)
