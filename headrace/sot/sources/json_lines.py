"""One record per line, as JSON: field names as in `Record`, integers as numbers, data in base64."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Final

import msgspec

from headrace.sot.encoding import encode
from headrace.sot.exceptions import MalformedInput, MalformedRecord
from headrace.sot.frames import CHUNK_BYTES, Chunk
from headrace.sot.layout import MAX_BODY_BYTES
from headrace.sot.sources.places import Readable
from headrace.sot.sources.plain import (
    PlainRecord,
    count_keys,
    explained,
    find_repeated_key,
    to_record,
    unwritable_text,
)

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
