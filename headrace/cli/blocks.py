"""`headrace blocks …`: make the project's kinds of blocks known to a Prefect server."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from dataclasses import asdict
from typing import Annotated, Any

import typer

from headrace.cli.server.run import with_client

app = typer.Typer(help="Prefect blocks: configuration kept on the server.", no_args_is_help=True)


@app.callback()
def blocks() -> None:
    """Prefect blocks: configuration kept on the server."""


@app.command()
def register(
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Register every kind of block, with its form; as often as you like."""

    def ask(client: Any) -> Awaitable[Any]:
        from blocks.registering import register_blocks

        return register_blocks(client)

    found = with_client(ask)
    if as_json:
        typer.echo(json.dumps({"blocks": [asdict(kind) for kind in found]}))
        return
    for kind in found:
        typer.echo(f"{kind.slug}: {kind.description}")
