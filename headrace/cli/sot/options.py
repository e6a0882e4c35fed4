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
