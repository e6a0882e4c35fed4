"""`headrace looker failures`: what did not come, by name."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.cli.looker.options import Json, Types, VaultPath, known_types, one_line, opened
from headrace.cli.looker.options import print_json as _print_json


def failures(
    types: Types = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also what has succeeded or was deleted since.")
    ] = False,
    vault: VaultPath = None,
    as_json: Json = False,
) -> None:
    """List items and pages that failed: status, message, attempts."""
    wanted = known_types(types)
    with opened(vault) as source:
        table = source.failures
        found = table.all(types=wanted) if everything else table.open(types=wanted)
    if as_json:
        _print_json({"failures": [asdict(failure) for failure in found]})
        return
    if not found:
        typer.echo("nothing is failing")
        return
    shown = Table("type", "what", "id or page", "status", "attempts", "last", "message")
    for failure in found:
        cells = (
            failure.type,
            failure.kind,
            failure.key,
            str(failure.status or "-"),
            str(failure.attempts),
            failure.last_at[:19],
            failure.message,
        )
        shown.add_row(*(Text(one_line(cell), overflow="fold") for cell in cells))
    Console().print(shown)
    if any(failure.resolved_at is None for failure in found):
        typer.echo("headrace looker retry asks for the open ones again")
