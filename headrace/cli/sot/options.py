"""Options that commands of the log share."""

from __future__ import annotations

from typing import Annotated

import typer

StoreOption = Annotated[
    str, typer.Option(help="A folder, cql://HOST/KEYSPACE or block:NAME. [HEADRACE_SOT]")
]
SymbolsOption = Annotated[
    list[int] | None, typer.Option("--symbols", help="Only this one (repeatable); none: all.")
]
Processes = Annotated[
    int, typer.Option(min=-1, max=256, help="Processes to spread it over; -1 chooses.")
]
Heads = Annotated[
    bool, typer.Option(help="Hold the chains against the heads that writes have saved, too.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON summary on stdout, nothing else.")]
