"""`headrace sot prove`: that a record is part of the log, or that the log only grew."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.common import print_json
from headrace.cli.sot.stores import StoreOption, opened
from headrace.errors import ConfigurationError
from headrace.sot.exceptions import DamagedLog
from headrace.sot.record import U32_MAX, U64_MAX
from headrace.sot.store import SotStore
from headrace.sot.tree.checking import consistency_holds, inclusion_holds
from headrace.sot.tree.log_head import LogHead, read_log_head
from headrace.sot.tree.symbol_tree import SymbolTree


def prove(
    symbol: Annotated[int, typer.Argument(min=0, max=U32_MAX, help="Symbol id.")],
    seq: Annotated[
        int | None, typer.Argument(min=0, max=U64_MAX, help="The record; none for --from and --to.")
    ] = None,
    from_size: Annotated[
        int | None,
        typer.Option("--from", min=0, help="Prove that the log grew from so many records"),
    ] = None,
    to_size: Annotated[
        int | None, typer.Option("--to", min=0, help="to so many; all that there are if left out.")
    ] = None,
    head: Annotated[
        Path | None,
        typer.Option(help="Prove the record against this head, made by `sot head --signed`."),
    ] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Put the record itself into the proof.")
    ] = False,
    store: StoreOption = "",
) -> None:
    """Prove that a record is part of the log, or that the log of one size grew out of another.

    One JSON object; docs/sot-format.md says how to check it. Sizes count the records of the symbol.
    Exit code 1: the log does not fit the head, or the tiles of its tree.
    """
    if (seq is None) == (from_size is None) or (seq is not None and to_size is not None):
        raise ConfigurationError(
            "a proof is about a record or about two sizes",
            hint="Write SYMBOL SEQ, or SYMBOL --from N --to M",
        )
    if seq is None and (head is not None or record):
        raise ConfigurationError("--head and --record go with a record", hint="Name its SEQ")
    with opened(store) as log:
        if seq is None:
            tree = SymbolTree(log, symbol)
            grows = tree.consistency(from_size or 0, to_size)
            _refuse_unless(consistency_holds(grows), log, symbol)
            print_json(grows.as_dict())
        else:
            print_json(_inclusion(log, symbol, seq, _read(head) if head else None, record=record))


def _inclusion(
    log: SotStore, symbol: int, seq: int, head: LogHead | None, *, record: bool
) -> dict[str, Any]:
    tree = SymbolTree(log, symbol)
    size, place, proven = None, 0, None
    if head is not None:
        found = head.symbol(symbol)
        if found is None:
            raise ConfigurationError(f"the head of {head.time} has no symbol {symbol}")
        place, proven = found
        size = proven.size
    proof, frame = tree.inclusion(seq, size), tree.frame(seq)
    _refuse_unless(inclusion_holds(proof, frame), log, symbol)
    fields = proof.as_dict()
    if record:
        fields["record"] = base64.b64encode(frame).decode()
    if head is not None and proven is not None:
        if (proof.first_seq, proof.root) != (proven.first_seq, proven.root):
            raise DamagedLog(
                log.location,
                f"its first {proven.size} records are not those of the head of {head.time}",
                symbol_id=symbol,
                hint="Verify the log, and compare the head with its anchors",
            )
        fields["head"] = head.statement.as_dict()
        fields["head_index"] = place
        fields["head_path"] = base64.b64encode(b"".join(head.path(place))).decode()
    return fields


def _refuse_unless(holds: bool, log: SotStore, symbol: int) -> None:
    if not holds:
        raise DamagedLog(
            log.location,
            "the tiles of its tree are not those of its records",
            symbol_id=symbol,
            hint="headrace sot verify names the tile",
        )


def _read(path: Path) -> LogHead:
    try:
        return read_log_head(path.read_bytes(), where=str(path))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror or error}") from error
