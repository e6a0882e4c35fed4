"""`headrace sot write`: the flow, run here."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.sot.options import AsJson, Processes, StoreOption
from headrace.cli.sot.running import run_sot_flow
from headrace.sot.requests import SourceFormat, WriteRequest


def write(
    source: Annotated[
        str, typer.Argument(help="A file, a folder, s3://bucket/prefix, or - for standard input.")
    ],
    store: StoreOption = "",
    format: Annotated[  # noqa: A002 - the option's name
        SourceFormat, typer.Option(help="How the source is written; auto looks.")
    ] = "auto",
    shards: Annotated[int, typer.Option(min=1, max=256, help="Writers.")] = 8,
    processes: Processes = -1,
    batch: Annotated[
        int, typer.Option(min=0, max=1_000_000, help="Records per commit at most; 0: the store's.")
    ] = 0,
    chain: Annotated[
        bool, typer.Option("--chain", help="Compute the hashes of a stream that has none.")
    ] = False,
    first_seq: Annotated[int, typer.Option(min=0, help="Where new chains begin.")] = 1,
    verify: Annotated[
        bool, typer.Option("--verify", help="Recompute what is new afterwards.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Put every record of a stream into its symbol's chain; what is there already stays.

    Exit code 0: all of it is stored; 4: some was not, and is named; 1: nothing was.
    """
    parameters = {name: value for name, value in locals().items() if name != "as_json"}
    run_sot_flow("sot_write", parameters, WriteRequest, as_json=as_json)
