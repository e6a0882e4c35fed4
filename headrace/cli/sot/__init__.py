"""`headrace sot …`: the source-of-truth log of an exchange engine."""

from __future__ import annotations

import typer

from headrace.cli.sot.gen import gen
from headrace.cli.sot.head import head
from headrace.cli.sot.running import migrate, recover, verify, write

app = typer.Typer(help="The source-of-truth log of an engine's outputs.", no_args_is_help=True)
app.command("gen")(gen)
app.command("write")(write)
app.command("verify")(verify)
app.command("recover")(recover)
app.command("migrate")(migrate)
app.command("head")(head)


@app.callback()
def sot() -> None:
    """The source-of-truth log of an engine's outputs."""
