"""From a file's bytes to its entries: what is sound, what is damaged, what is a torn end.

A kill in the middle of an append leaves the beginning of an entry at the end of the file: that is a
torn tail, never acknowledged, and may be cut. Anything else that is not an entry is damage. The two
are told apart by what lies behind: a torn tail has no sound header and no sound trailer behind it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from headrace.sot.embedded.entry import (
    HEADER_BYTES,
    HEADER_MAGIC,
    TRAILER_MAGIC,
    BadEntry,
    Entry,
    check_of,
    unpack,
)

_SEARCH_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Found:
    """A sound entry (as far as its two headers tell)."""

    offset: int
    entry: Entry
    check: int


@dataclass(frozen=True, slots=True)
class CorruptRange:
    """A stretch that is not what was written.

    Attributes:
        offset, end: the stretch; `end` is where the next sound entry begins, or the file ends.
        entry: whose it is, if one of the two headers still says so.
        check: that entry's check, for the entry behind it.
        reason: how it showed.
    """

    offset: int
    end: int
    entry: Entry | None
    check: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class TornTail:
    """The beginning of an entry that was never finished, hence never acknowledged.

    Attributes:
        where: the file.
        offset: where it begins.
        size_bytes: how much of it is there.
        entry: what it was going to be, if its header is whole.
    """

    where: str
    offset: int
    size_bytes: int
    entry: Entry | None

    def __str__(self) -> str:
        what = f"{self.size_bytes} bytes of an unfinished append at byte {self.offset}"
        if self.entry is not None and self.entry.count:
            what += f" (symbol {self.entry.symbol_id}, from seq {self.entry.first_seq})"
        return f"{self.where}: {what}"


def walk(
    descriptor: int, where: str, offset: int, size: int, number: int, previous_check: int
) -> Iterator[Found | CorruptRange | TornTail]:
    """Everything from `offset` to `size`, in order; a torn tail is the last thing if there is one.

    Args:
        descriptor: the open file.
        where: its path, for messages.
        offset, size: the stretch; an entry begins at `offset`.
        number, previous_check: of the entry expected there, and of the one before it.
    """
    while offset < size:
        step = _step(descriptor, where, offset, size, number, previous_check)
        yield step
        if isinstance(step, TornTail):
            return
        if isinstance(step, Found):
            offset += step.entry.size_bytes
            number, previous_check = step.entry.number + 1, step.check
            continue
        offset = step.end
        if step.entry is not None and step.check is not None:
            number, previous_check = step.entry.number + 1, step.check
        elif offset < size:
            resumed = unpack(os.pread(descriptor, HEADER_BYTES, offset))
            number, previous_check = resumed.number, resumed.previous_check


def _step(
    descriptor: int, where: str, offset: int, size: int, number: int, previous_check: int
) -> Found | CorruptRange | TornTail:
    data = os.pread(descriptor, HEADER_BYTES, offset)
    if size - offset < HEADER_BYTES:
        return TornTail(where, offset, size - offset, None)
    try:
        entry = unpack(data)
    except BadEntry as error:
        return _without_header(descriptor, where, offset, size, str(error))
    end = offset + entry.size_bytes
    if end > size:
        return TornTail(where, offset, size - offset, entry)
    check = check_of(data)
    trailer = os.pread(descriptor, HEADER_BYTES, end - HEADER_BYTES)
    if trailer != entry.packed(TRAILER_MAGIC):
        return CorruptRange(offset, end, entry, check, "its second header differs from its first")
    if entry.number != number or entry.previous_check != previous_check:
        reason = f"it is entry {entry.number}, entry {number} was expected: entries are missing"
        if entry.number == number:
            reason = "the entry before it is not the one it was written behind"
        # The entry itself is sound: what is wrong lies between it and the one before.
        return CorruptRange(offset, offset, None, None, reason)
    return Found(offset, entry, check)


def _without_header(
    descriptor: int, where: str, offset: int, size: int, reason: str
) -> CorruptRange | TornTail:
    """Find out whose broken header this is by the copy behind the payload."""
    following = _next_header(descriptor, offset + 1, size)
    end = size if following is None else following
    try:
        start = max(offset, end - HEADER_BYTES)
        entry = unpack(os.pread(descriptor, end - start, start), TRAILER_MAGIC)
    except BadEntry:
        if following is None:
            return TornTail(where, offset, size - offset, None)
        return CorruptRange(offset, end, None, None, reason)
    if offset + entry.size_bytes != end:
        return CorruptRange(offset, end, None, None, f"{reason}; several entries are concerned")
    return CorruptRange(offset, end, entry, check_of(entry.packed()), reason)


def _next_header(descriptor: int, offset: int, size: int) -> int | None:
    """Where the next sound header begins, None if there is none."""
    overlap = len(HEADER_MAGIC) - 1
    while offset < size:
        data = os.pread(descriptor, _SEARCH_BYTES + overlap, offset)
        at = data.find(HEADER_MAGIC)
        while at >= 0:
            try:
                unpack(os.pread(descriptor, HEADER_BYTES, offset + at))
            except BadEntry:
                at = data.find(HEADER_MAGIC, at + 1)
            else:
                return offset + at
        offset += _SEARCH_BYTES
    return None
