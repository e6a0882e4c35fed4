"""`headrace sot gen`: a stream to rehearse with."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

from headrace.cli.options import AsJson
from headrace.errors import ConfigurationError
from headrace.sot.gen import FAULTS, StreamSpec, generate
from headrace.sot.output import WRITERS, Target
from headrace.sot.requests import OutFormat
from headrace.sot.sources.reading import Format


def gen(
    out: Annotated[str, typer.Argument(help="A new file, or - for standard output.")],
    records: Annotated[int, typer.Option(min=0, help="How many.")] = 100_000,
    symbols: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many, from 1 on.")] = 8,
    size_bytes: Annotated[int, typer.Option(min=80, help="Of a record.")] = 300,
    hot_share: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the first symbol; 0: all are even.")
    ] = 0.0,
    chain: Annotated[
        bool, typer.Option("--chain/--no-chain", help="Whether the records carry hashes.")
    ] = True,
    first_seq: Annotated[int, typer.Option(min=0, help="Of every symbol.")] = 1,
    seed: Annotated[int, typer.Option(help="The same seed gives the same stream.")] = 1,
    faults: Annotated[
        list[str] | None,
        typer.Option("--faults", help=f"KIND:COUNT (repeatable): {', '.join(FAULTS)}."),
    ] = None,
    format: Annotated[OutFormat, typer.Option(help="How it is written.")] = "frames",  # noqa: A002
    as_json: AsJson = False,
) -> None:
    """Make a stream of an engine's outputs, the same every time for the same options."""
    if as_json and out == "-":
        raise ConfigurationError(
            "standard output cannot hold both the stream and --json", hint="Name a file"
        )
    spec = StreamSpec(
        records=records,
        symbols=symbols,
        size_bytes=size_bytes,
        hot_share=hot_share or None,
        chained=chain,
        first_seq=first_seq,
        seed=seed,
        faults=_faults(faults or []),
    )
    spec.check()
    started_s = time.monotonic()
    target = Target(out)
    with target.opened() as file:
        written = WRITERS[Format(format)]((made.body for made in generate(spec)), file)
    target.finish(whole=True)
    elapsed_s = time.monotonic() - started_s
    if as_json:
        summary = {"out": out, "records": written, "elapsed_s": round(elapsed_s, 3)}
        typer.echo(json.dumps(summary))
    elif out != "-":
        typer.echo(f"{written:,} records in {out} ({elapsed_s:.1f} s)")


def _faults(given: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in given:
        kind, _, count = text.partition(":")
        if not count.isdecimal():
            raise ConfigurationError(
                f"--faults {text!r} is not KIND:COUNT", hint=f"KIND is one of {', '.join(FAULTS)}"
            )
        found[kind] = found.get(kind, 0) + int(count)
    return found
