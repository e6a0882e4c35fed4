"""A record as JSON and Parquet carry it: without hashes if the stream is not chained yet."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from msgspec import UNSET, Struct, UnsetType

from headrace.sot.exceptions import MalformedRecord
from headrace.sot.record import (
    HASH_CARRIED,
    HASH_XXH3_V1,
    U8,
    U32,
    U64,
    BalanceEvent,
    Input,
    OrderCompletion,
    OrderPlacement,
    OrderUpdate,
    Record,
    Trade,
    symbol_of,
)

_PATH = re.compile(r"^(?P<reason>.*?)(?: - at `\$\.?(?P<path>.*)`)?$", re.DOTALL)
_NAMED = re.compile(r"^Object (?P<how>missing required|contains unknown) field `(?P<field>.*)`$")


class PlainRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """`Record`, with what can be worked out left optional."""

    output_seq: U64
    input: Input
    symbol_id: U32 | UnsetType = UNSET
    prev_hash: U64 | UnsetType = UNSET
    hash: U64 | UnsetType = UNSET
    hash_version: U8 | UnsetType = UNSET
    order_update: OrderUpdate | None = None
    trades: tuple[Trade, ...] = ()
    balance_events: tuple[BalanceEvent, ...] = ()
    order_placements: tuple[OrderPlacement, ...] = ()
    order_completions: tuple[OrderCompletion, ...] = ()


def to_record(plain: PlainRecord, *, chained: bool) -> Record:
    """The record, with its symbol worked out if it names none.

    Args:
        plain: as it came.
        chained: whether its engine has chained it; otherwise it must not carry hashes.

    Raises:
        MalformedRecord: hashes are missing, or there although they should not.
    """
    if chained:
        for field in ("hash", "prev_hash"):
            if getattr(plain, field) is UNSET:
                raise MalformedRecord(
                    field, "is missing", hint="A stream without hashes is written with --chain"
                )
    elif plain.hash or plain.prev_hash:
        raise MalformedRecord(
            "hash", "is there already", hint="Leave out --chain for a stream that is chained"
        )
    symbol_id = plain.symbol_id
    if symbol_id is UNSET:
        symbol_id = symbol_of(plain.input, plain.order_update, plain.trades)
    version = plain.hash_version
    if version is UNSET:
        version = HASH_XXH3_V1 if chained else HASH_CARRIED
    return Record(
        output_seq=plain.output_seq,
        symbol_id=symbol_id,
        prev_hash=plain.prev_hash or 0,
        hash=plain.hash or 0,
        input=plain.input,
        hash_version=version,
        order_update=plain.order_update,
        trades=plain.trades,
        balance_events=plain.balance_events,
        order_placements=plain.order_placements,
        order_completions=plain.order_completions,
    )


def unwritable_text(line: bytes) -> tuple[str, str] | None:
    """The first text in a line of JSON that is no UTF-8, and why; None if all of it is.

    The decoder of records says so too, but not where.
    """
    try:
        given = json.loads(line.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return None
    for path, text in _texts(given, ""):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            return path, f"is no UTF-8 at its character {error.start + 1}"
    return None


def _texts(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _texts(item, f"{path}[{place}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _texts(item, f"{path}.{name}" if path else name)


def explained(message: str) -> tuple[str, str]:
    """Field and reason out of msgspec's message."""
    found = _PATH.match(message)
    if found is None:
        return "", message
    path, reason = found["path"] or "", found["reason"]
    named = _NAMED.match(reason)
    if named is None:
        return path, reason
    field = f"{path}.{named['field']}" if path else named["field"]
    return field, "is missing" if named["how"] == "missing required" else "is not known"
