"""`headrace sot head`: where the chains of a log stand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from headrace.cli.exits import Exit
from headrace.cli.options import AsJson
from headrace.cli.server import api_for_run
from headrace.errors import ConfigurationError
from headrace.pull.request import BLOCK_PREFIX
from headrace.settings import load_settings
from headrace.sot.exceptions import DamagedLog
from headrace.sot.opening import open_store
from headrace.sot.store import SotStore

StoreOption = Annotated[
    str, typer.Option(help="A folder, cql://HOST/KEYSPACE or block:NAME. [HEADRACE_SOT]")
]
SymbolsOption = Annotated[
    list[int] | None, typer.Option("--symbols", help="Only this one (repeatable); none: all.")
]

_COLUMNS = ("symbol", "epoch", "first_seq", "next_seq", "digest", "parked", "verified_to")


def head(store: StoreOption = "", symbols: SymbolsOption = None, as_json: AsJson = False) -> None:
    """Show the head of every chain: sequence, hash, digest, what is parked, what was verified.

    Exit code 4: a head cannot be read, and is named.
    """
    with _opened(store) as log:
        known = log.symbols()
        if absent := sorted(set(symbols or []) - set(known)):
            raise ConfigurationError(f"the log in {log.location} has no symbol {absent[0]}")
        rows = [_row(log, symbol_id) for symbol_id in symbols or known]
        location = log.location
    if as_json:
        typer.echo(json.dumps({"store": location, "symbols": rows}))
    elif rows:
        table = Table()
        for name in _COLUMNS:
            table.add_column(name.replace("_", " "), justify="right", no_wrap=True)
        for row in rows:
            cells = {**row, "digest": str(row["digest"] or "")[:12]}
            table.add_row(*("" if cells[name] is None else str(cells[name]) for name in _COLUMNS))
        Console().print(table)
    else:
        typer.echo(f"the log in {location} is empty")
    damaged = [row for row in rows if row["damage"]]
    for row in damaged:
        typer.echo(row["damage"], err=True)
    if damaged:
        raise typer.Exit(Exit.PARTIAL)


@contextmanager
def _opened(option: str) -> Iterator[SotStore]:
    """The store that an option names; nothing is made. Prefect is needed for a block only.

    Raises:
        StoreMisconfigured, StoreUnavailable, ConfigurationError: it cannot be used.
    """
    settings = load_settings()
    location = option or settings.sot
    with ExitStack() as opened:
        if location.startswith(BLOCK_PREFIX):
            opened.enter_context(api_for_run(settings.home, say=lambda _line: None))
            from blocks.resolve import sot_store_of

            store = sot_store_of(location).open(create=False)
        else:
            store = open_store(location, create=False)
        opened.callback(store.close)
        yield store


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
