"""One record per line, as JSON: field names as in `Record`, integers as numbers, data in base64.

`PlainRecord` is a record as JSON and Parquet carry it: without hashes if the stream is not chained
yet.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict

from headrace.sot.encoding import MAX_BODY_BYTES, encode
from headrace.sot.exceptions import MalformedInput, MalformedRecord
from headrace.sot.frames import CHUNK_BYTES, Chunk
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
from headrace.sot.sources.places import Readable

_PATH = re.compile(r"^(?P<reason>.*?)(?: - at `\$\.?(?P<path>.*)`)?$", re.DOTALL)
_Item = TypeVar("_Item", bound=Struct)
_UPDATE_KEYS: Final = len(OrderUpdate.__struct_fields__) - 1
_TRADE_KEYS: Final = len(Trade.__struct_fields__)
_BALANCE_KEYS: Final = len(BalanceEvent.__struct_fields__)
_PLACEMENT_KEYS: Final = len(OrderPlacement.__struct_fields__) - 1
_COMPLETION_KEYS: Final = len(OrderCompletion.__struct_fields__)
_NAMED = re.compile(r"^Object (?P<how>missing required|contains unknown) field `(?P<field>.*)`$")


class PlainInput(Input, frozen=True, forbid_unknown_fields=True):
    """`Input` that shows which of its fields were left out."""

    crc: U32 | UnsetType = UNSET  # type: ignore[assignment]
    symbol_id: U32 | UnsetType = UNSET  # type: ignore[assignment]
    data: bytes | UnsetType = UNSET  # type: ignore[assignment]


class PlainUpdate(OrderUpdate, frozen=True, forbid_unknown_fields=True):
    """`OrderUpdate` that shows whether its text was left out."""

    client_order_id: str | UnsetType = UNSET  # type: ignore[assignment]


class PlainPlacement(OrderPlacement, frozen=True, forbid_unknown_fields=True):
    """`OrderPlacement` that shows whether its text was left out."""

    client_order_id: str | UnsetType = UNSET  # type: ignore[assignment]


class PlainRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """`Record` as it was given; `UNSET` is what was left out."""

    output_seq: U64
    input: PlainInput
    symbol_id: U32 | UnsetType = UNSET
    prev_hash: U64 | UnsetType = UNSET
    hash: U64 | UnsetType = UNSET
    hash_version: U8 | UnsetType = UNSET
    order_update: PlainUpdate | UnsetType | None = UNSET
    trades: tuple[Trade, ...] | UnsetType = UNSET
    balance_events: tuple[BalanceEvent, ...] | UnsetType = UNSET
    order_placements: tuple[PlainPlacement, ...] | UnsetType = UNSET
    order_completions: tuple[OrderCompletion, ...] | UnsetType = UNSET


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
    given, updated, placed = plain.input, plain.order_update or None, plain.order_placements or ()
    input_: Input = given
    if given.data is UNSET or given.crc is UNSET or given.symbol_id is UNSET:
        input_ = _filled_in(given, Input)
    update: OrderUpdate | None = updated
    if updated is not None and updated.client_order_id is UNSET:
        update = _filled_in(updated, OrderUpdate)
    placements: tuple[OrderPlacement, ...] = placed
    if placed and any(each.client_order_id is UNSET for each in placed):
        placements = tuple([_filled_in(each, OrderPlacement) for each in placed])
    trades = plain.trades or ()
    symbol_id = plain.symbol_id
    if symbol_id is UNSET:
        symbol_id = symbol_of(input_, update, trades)
    version = plain.hash_version
    if version is UNSET:
        version = HASH_XXH3_V1 if chained else HASH_CARRIED
    return Record(
        output_seq=plain.output_seq,
        symbol_id=symbol_id,
        prev_hash=plain.prev_hash or 0,
        hash=plain.hash or 0,
        input=input_,
        hash_version=version,
        order_update=update,
        trades=trades,
        balance_events=plain.balance_events or (),
        order_placements=placements,
        order_completions=plain.order_completions or (),
    )


def _filled_in(plain: Struct, kind: type[_Item]) -> _Item:
    """The same with the default for each field that was left out."""
    return kind(**{name: value for name, value in asdict(plain).items() if value is not UNSET})


def count_keys(plain: PlainRecord) -> int:
    """How many keys the JSON object has that gives this record, if it has none of them twice."""
    given, update = plain.input, plain.order_update
    keys = 3 + (plain.symbol_id is not UNSET) + (plain.prev_hash is not UNSET)
    keys += (plain.hash is not UNSET) + (plain.hash_version is not UNSET)
    keys += (given.crc is not UNSET) + (given.symbol_id is not UNSET) + (given.data is not UNSET)
    if update is not UNSET:
        keys += 1
        if update is not None:
            keys += _UPDATE_KEYS + (update.client_order_id is not UNSET)
    if plain.trades is not UNSET:
        keys += 1 + _TRADE_KEYS * len(plain.trades)
    if plain.balance_events is not UNSET:
        keys += 1 + _BALANCE_KEYS * len(plain.balance_events)
    if plain.order_placements is not UNSET:
        keys += 1
        for placement in plain.order_placements:
            keys += _PLACEMENT_KEYS + (placement.client_order_id is not UNSET)
    if plain.order_completions is not UNSET:
        keys += 1 + _COMPLETION_KEYS * len(plain.order_completions)
    return keys


def find_repeated_key(line: bytes) -> str | None:
    """The first key that an object in a line of JSON has twice, with its path; None if none has."""
    return next(_repeated(json.loads(line, object_pairs_hook=_Pairs), ""), None)


class _Pairs(list[tuple[str, object]]):
    """A JSON object with each of its keys, however often."""


def _repeated(value: object, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        known: set[str] = set()
        for name, item in value:
            field = f"{path}.{name}" if path else name
            if name in known:
                yield field
            known.add(name)
            yield from _repeated(item, field)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _repeated(item, f"{path}[{place}]")


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


#: Base64 and names make a line several times as long as its body.
_MAX_LINE_BYTES: Final = 8 * MAX_BODY_BYTES


def read_json_lines(name: str, file: Readable, *, chained: bool = True) -> Iterator[Chunk]:
    """The records of one file. Empty lines are passed over, and so is a byte order mark before all.

    Args:
        name: of the source, for messages.
        file: at the beginning.
        chained: whether the records carry hashes.

    Raises:
        MalformedInput: a line that is no record, after everything before it was handed on.
    """
    decoder = msgspec.json.Decoder(PlainRecord)
    number = 0
    for lines in _lines(name, file):
        chunk = Chunk()
        for line in lines:
            number += 1
            if not line or line.isspace():
                continue
            try:
                plain = decoder.decode(line)
                # The decoder takes the last of two equal keys, without an error. A colon stands
                # behind each key, and else only in texts.
                if line.count(b":") != count_keys(plain):
                    _refuse_repeated_key(line)
                record = to_record(plain, chained=chained)
                chunk.add(record.symbol_id, encode(record))
            except MalformedRecord as error:
                yield from _rest(chunk)
                raise MalformedInput(
                    name, f"line {number}", error.field, error.reason, hint=error.hint
                ) from error
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                yield from _rest(chunk)
                field, reason = unwritable_text(line) or explained(str(error))
                raise MalformedInput(
                    name, f"line {number}", field, reason, hint=_hint(line)
                ) from error
        yield from _rest(chunk)


def _refuse_repeated_key(line: bytes) -> None:
    field = find_repeated_key(line)
    if field is not None:
        raise MalformedRecord(field, "is there more than once", hint="Nothing says which counts")


def _hint(line: bytes) -> str:
    """What kind of text a line is that is no JSON."""
    if line.startswith(codecs.BOM_UTF8) or b"}" + codecs.BOM_UTF8 in line:
        return (
            "There is a byte order mark (EF BB BF) in it: files were joined. Name their folder "
            "instead, or remove the mark"
        )
    if b"\x00" in line:
        return "There are NUL bytes in it, as in UTF-16 text: JSON lines are UTF-8 throughout"
    return ""


def _rest(chunk: Chunk) -> Iterator[Chunk]:
    if chunk.records:
        yield chunk


def _lines(name: str, file: Readable) -> Iterator[list[bytes]]:
    """Whole lines, some at a time; the last one need not end with a line feed."""
    rest = b""
    count = 0
    mark = codecs.BOM_UTF8
    while data := file.read(CHUNK_BYTES):
        lines = (rest + data.removeprefix(mark)).split(b"\n")
        mark = b""
        rest = lines.pop()
        count += len(lines)
        if lines:
            yield lines
        if len(rest) > _MAX_LINE_BYTES:
            raise MalformedInput(
                name, f"line {count + 1}", "", f"is longer than {_MAX_LINE_BYTES} bytes"
            )
    if rest:
        yield [rest]
