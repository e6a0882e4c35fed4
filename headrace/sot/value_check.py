"""Which value of a record does not fit its field: words for what the encoder refused."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from headrace.sot.exceptions import MalformedRecord
from headrace.sot.record import I64_MAX, I64_MIN, U8_MAX, U32_MAX, U64_MAX, Record

_U8 = {"side", "kind", "status", "taker_side", "reason", "hash_version"}
_U32 = {"symbol_id", "asset_id", "crc"}
_I64 = {"delta"}


def explain_values(record: Record, *, max_text_bytes: int) -> None:
    """Raise for the first value out of range; return if all are within.

    Raises:
        MalformedRecord: with the path of the field, as in `trades[2].price`.
    """
    for path, name, value in _values(record, ""):
        if isinstance(value, str):
            _check_text(path, value, max_text_bytes)
        elif isinstance(value, int):
            low, high = _bounds(name)
            if not low <= value <= high:
                raise MalformedRecord(path, f"{value} is not within {low} to {high}")


def _values(item: Struct, prefix: str) -> Iterator[tuple[str, str, object]]:
    for name in item.__struct_fields__:
        value = getattr(item, name)
        path = f"{prefix}{name}"
        if isinstance(value, Struct):
            yield from _values(value, f"{path}.")
        elif isinstance(value, tuple):
            for index, element in enumerate(value):
                yield from _values(element, f"{path}[{index}].")
        else:
            yield path, name, value


def _bounds(name: str) -> tuple[int, int]:
    if name in _U8:
        return 0, U8_MAX
    if name in _U32:
        return 0, U32_MAX
    return (I64_MIN, I64_MAX) if name in _I64 else (0, U64_MAX)


def _check_text(path: str, value: str, max_bytes: int) -> None:
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise MalformedRecord(path, f"cannot be written as UTF-8: {error.reason}") from error
    if size > max_bytes:
        raise MalformedRecord(path, f"{size} bytes of text, at most {max_bytes} are allowed")
