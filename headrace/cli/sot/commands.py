"""The commands of `headrace sot`: a stream to rehearse with, the flows of the log, its heads."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from headrace.amounts import counted
from headrace.cli.common import Json, print_json, result_console, table_of
from headrace.cli.evidence import KeyOption, key_at
from headrace.cli.exit_codes import Exit
from headrace.cli.options import pipeline_command
from headrace.cli.sot.stores import StoreOption, SymbolsOption, opened
from headrace.errors import ConfigurationError
from headrace.evidence.keys import signing_key
from headrace.extras import require
from headrace.sot.exceptions import DamagedLog
from headrace.sot.opening import CQL_SCHEME
from headrace.sot.output import WRITERS, Target
from headrace.sot.requests import (
    AnchorRequest,
    MigrateRequest,
    OutFormat,
    RecoverRequest,
    SotRequest,
    VerifyRequest,
    WriteRequest,
)
from headrace.sot.sample_records import FAULTS, StreamSpec, generate
from headrace.sot.sources.reading import Format
from headrace.sot.store import SotStore
from headrace.sot.tree.log_head import sign_head


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
    as_json: Json = False,
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
        print_json(summary)
    elif out != "-":
        typer.echo(f"{counted(written, 'record')} in {out} ({elapsed_s:.1f} s)")


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


def _command(name: str, request: type[SotRequest], text: str) -> Callable[..., None]:
    """The command `headrace sot NAME`, which runs `flows.sot_NAME`."""
    return pipeline_command(f"sot_{name}", request, text, name=name, check=_check)


def _check(request: SotRequest, as_json: bool) -> None:
    if as_json and getattr(request, "out", "") == "-":
        raise ConfigurationError(
            "standard output cannot hold both the replay and --json", hint="Name a file"
        )
    if request.store.startswith(CQL_SCHEME):
        # Before a server is started.
        require("cql")


write = _command(
    "write",
    WriteRequest,
    """Put every record of a stream into its symbol's chain; what is there already stays.

    Exit code 0: all of it is stored; 4: some was not, and is named; 1: nothing was.
    """,
)
verify = _command(
    "verify",
    VerifyRequest,
    """Find any damage, gap, fork or reordering in the log, and name it.

    Exit code 0: nothing is wrong; 4: something is, and is named; 1: nothing good was found.
    """,
)
anchor = _command(
    "anchor",
    AnchorRequest,
    """Sign where the log ends, and put that where its writer cannot rewrite it.

    Exit code 0: it is in every anchor; 4: in some, the others are named; 1: in none.
    """,
)
recover = _command(
    "recover",
    RecoverRequest,
    """Write the log as a stream equal to what came in; nothing damaged is handed on as good.

    Exit code 0: all of it; 4: a part, in OUT.partial, and why; 1: nothing could be replayed.
    """,
)
migrate = _command(
    "migrate",
    MigrateRequest,
    """Migrate an unsharded log into the sharded one: begin, backfill, compare, switch, end.

    Exit code 0: done; 4: the logs differ, or one is behind; 2: that step is out of order.
    """,
)


_COLUMNS = ("symbol", "epoch", "first_seq", "next_seq", "digest", "parked", "verified_to")


def head(
    store: StoreOption = "",
    symbols: SymbolsOption = None,
    signed: Annotated[
        bool, typer.Option("--signed", help="One head over all symbols, signed, as JSON.")
    ] = False,
    key: KeyOption = "",
    as_json: Json = False,
) -> None:
    """Show the head of every chain: sequence, hash, digest, what is parked, what was verified.

    Exit code 4: a head cannot be read, and is named.
    """
    if signed:
        _print_signed_head(store, symbols, key)
        return
    with opened(store) as log:
        known = log.symbols()
        if absent := sorted(set(symbols or []) - set(known)):
            raise ConfigurationError(f"the log in {log.location} has no symbol {absent[0]}")
        rows = [_row(log, symbol_id) for symbol_id in symbols or known]
        location = log.location
    if as_json:
        print_json({"store": location, "symbols": rows})
    elif rows:
        shown = [{name: row[name] for name in _COLUMNS} for row in rows]
        for row in shown:
            row["symbol"], row["digest"] = str(row["symbol"]), str(row["digest"] or "")[:12]
        result_console().print(table_of(shown, whole=_COLUMNS))
    else:
        typer.echo(f"the log in {location} is empty")
    damaged = [row for row in rows if row["damage"]]
    for row in damaged:
        typer.echo(row["damage"], err=True)
    if damaged:
        raise typer.Exit(Exit.PARTIAL)


def _print_signed_head(store: str, symbols: list[int] | None, key: str) -> None:
    if symbols:
        raise ConfigurationError("a signed head is over all symbols", hint="Leave out --symbols")
    with key_at(key) as place:
        signing = signing_key(place)
    with opened(store) as log:
        typer.echo(sign_head(log, signing, now=datetime.now(UTC)).as_line(), nl=False)


def _row(log: SotStore, symbol_id: int) -> dict[str, Any]:
    """Sequences as text: they go to 2**64."""
    row: dict[str, Any] = dict.fromkeys((*_COLUMNS, "hash", "damage"))
    row["symbol"] = symbol_id
    try:
        found = log.head(symbol_id)
        if found is not None:
            row["epoch"] = found.epoch
            row["first_seq"] = str(found.first_seq)
            row["next_seq"] = str(found.position.next_seq)
            row["hash"] = f"{found.position.hash:016x}"
            row["digest"] = found.position.digest.hex()
        row["parked"] = sum(1 for _ in log.parked(symbol_id))
        verified = log.verified(symbol_id)
        row["verified_to"] = None if verified is None else str(verified.next_seq - 1)
    except DamagedLog as damage:
        row["damage"] = str(damage)
    return row
