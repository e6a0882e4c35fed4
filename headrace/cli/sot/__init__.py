"""`headrace sot …`: the source-of-truth log of an exchange engine."""

from __future__ import annotations

from typing import ClassVar

import typer

from headrace.cli.lazy_commands import Lazy, LazyGroup


class _Commands(LazyGroup):
    """The commands, in the order of the help."""

    lazy: ClassVar[dict[str, Lazy]] = {
        "gen": Lazy(
            "headrace.cli.sot.commands:gen",
            "Make a stream of an engine's outputs, the same every time for the same options.",
        ),
        "write": Lazy(
            "headrace.cli.sot.commands:write",
            "Put every record of a stream into its symbol's chain; what is there already stays.",
        ),
        "verify": Lazy(
            "headrace.cli.sot.commands:verify",
            "Find any damage, gap, fork or reordering in the log, and name it.",
        ),
        "recover": Lazy(
            "headrace.cli.sot.commands:recover",
            "Write the log as a stream equal to what came in; nothing damaged is handed on as "
            "good.",
        ),
        "migrate": Lazy(
            "headrace.cli.sot.commands:migrate",
            "Migrate an unsharded log into the sharded one: begin, backfill, compare, switch, end.",
        ),
        "anchor": Lazy(
            "headrace.cli.sot.commands:anchor",
            "Sign where the log ends, and put that where its writer cannot rewrite it.",
        ),
        "prove": Lazy(
            "headrace.cli.sot.proofs:prove",
            "Prove that a record is part of the log, or that the log of one size grew out of "
            "another.",
        ),
        "head": Lazy(
            "headrace.cli.sot.commands:head",
            "Show the head of every chain: sequence, hash, digest, what is parked, what was "
            "verified.",
        ),
        "get": Lazy(
            "headrace.cli.sot.reads:get",
            "Write some records of one symbol to standard output; nothing before them is replayed.",
        ),
        "tail": Lazy(
            "headrace.cli.sot.reads:tail",
            "Write the log to standard output in the order of a replay, then what is added to it.",
        ),
    }


app = typer.Typer(
    help="The source-of-truth log of an engine: write, read, prove, verify, recover, migrate.",
    no_args_is_help=True,
    cls=_Commands,
)


@app.callback()
def sot() -> None:
    """The source-of-truth log of an engine: write, read, prove, verify, recover, migrate."""
