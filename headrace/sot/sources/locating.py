"""Where a record stands that was found malformed long after it was read.

Readers of frames look at lengths only; whoever follows the chain finds a malformed record by its
symbol and sequence. People need file and byte, so the sources are looked through once more.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from headrace.lake.exceptions import StoreError
from headrace.sot.exceptions import MalformedRecord, SourceUnusable
from headrace.sot.frames import STREAM_MAGIC, check_length
from headrace.sot.layout import FRAME_ROUTE, LENGTH, LENGTH_BYTES
from headrace.sot.layout_check import check_body
from headrace.sot.sources.arriving import Readable, peekable
from headrace.sot.sources.places import Place

Key = tuple[int, int]


def locate_malformed(places: Iterable[Place], wanted: set[Key]) -> dict[Key, str]:
    """File, byte and number of the frame of each malformed record, as far as it can be found.

    Args:
        places: what was read; pipes cannot be read again and are passed over.
        wanted: symbol and sequence of each.
    """
    found: dict[Key, str] = {}
    for place in places:
        if not place.again:
            continue
        try:
            with place.open() as raw:
                file = peekable(raw, again=True)
                if _read(file, len(STREAM_MAGIC)) == STREAM_MAGIC:
                    _look_through(place.name, file, wanted, found)
        except (OSError, EOFError, zlib.error, SourceUnusable, StoreError):
            continue  # gone since it was read; symbol and sequence are named all the same
        if wanted <= found.keys():
            break
    return found


def _look_through(name: str, file: Readable, wanted: set[Key], found: dict[Key, str]) -> None:
    offset, number = len(STREAM_MAGIC), 0
    while wanted - found.keys():
        head = _read(file, LENGTH_BYTES)
        if len(head) < LENGTH_BYTES:
            return
        try:
            check_length(LENGTH.unpack(head)[0])
        except MalformedRecord:
            return
        body = _read(file, LENGTH.unpack(head)[0])
        number += 1
        key: Key = FRAME_ROUTE.unpack_from(head + body)[1:]
        if key in wanted and key not in found and _is_malformed(body):
            found[key] = f"{name}, byte {offset} (frame {number})"
        offset += len(head) + len(body)


def _read(file: Readable, size: int) -> bytes:
    """All of it, or what there is: an unbuffered file may give less than it was asked for."""
    pieces = []
    while size and (piece := file.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _is_malformed(body: bytes) -> bool:
    try:
        check_body(body)
    except MalformedRecord:
        return True
    return False
