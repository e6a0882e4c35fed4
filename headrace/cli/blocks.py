"""`headrace blocks …`: register the project's block types with a Prefect server."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import asdict
from typing import Any

import typer

from headrace.cli.common import Json, print_json
from headrace.cli.server.run import with_client

app = typer.Typer(
    help="Prefect blocks: configuration that is saved on the server.", no_args_is_help=True
)


@app.command()
def register(as_json: Json = False) -> None:
    """Register every block type with its form; repeating it is harmless."""

    def ask(client: Any) -> Awaitable[Any]:
        from blocks.registering import register_blocks

        return register_blocks(client)

    found = with_client(ask)
    if as_json:
        print_json({"blocks": [asdict(kind) for kind in found]})
        return
    for kind in found:
        typer.echo(f"{kind.slug}: {kind.description}")
