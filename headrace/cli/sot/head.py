"""`headrace sot head`: where the chains of a log stand."""

from __future__ import annotations

import json
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from headrace.cli.exits import Exit
from headrace.cli.options import AsJson
from headrace.cli.sot.opened import opened_store
from headrace.cli.sot.options import StoreOption, SymbolsOption
from headrace.errors import ConfigurationError
from headrace.sot.exceptions import DamagedLog
from headrace.sot.store import SotStore

_COLUMNS = ("symbol", "epoch", "first_seq", "next_seq", "digest", "parked", "verified_to")


def head(store: StoreOption = "", symbols: SymbolsOption = None, as_json: AsJson = False) -> None:
    """Show the head of every chain: sequence, hash, digest, what is parked, what was verified.

    Exit code 4: a head cannot be read, and is named.
    """
    with opened_store(store) as log:
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
