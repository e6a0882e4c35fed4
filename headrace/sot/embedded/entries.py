"""The entries of a volume: a header, a payload, and the header again behind it.

Every byte is covered by a check, and the symbol of an entry stands in it twice: damage to either
copy, or to the payload, is found and can be named by the other. Each entry carries the check of the
one before it, so that none can be taken out or moved.

    magic 4s "SOTH" | format u8 | kind u8 | codec u16 | symbol u32 | count u32 | number u64 |
    first_seq u64 | epoch u64 | hash u64 | digest 32s | stored u32 | raw u32 | payload check u64 |
    check of the entry before u64 | check u64

All little endian; checks are xxh3-64, `check` over everything in front of it. The copy behind the
payload has the magic "SOTT" and a check of its own.

`walk` goes from a file's bytes to its entries. A kill in the middle of an append leaves the
beginning of an entry at the end of the file: that is a torn tail, never acknowledged, and may be
cut. Anything else that is not an entry is damage. What lies behind distinguishes the two: a torn
tail has no sound header and no sound trailer behind it.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from xxhash import xxh3_64_intdigest

from headrace.sot.store import Parked

FORMAT: Final = 1
HEADER_MAGIC: Final = b"SOTH"
TRAILER_MAGIC: Final = b"SOTT"
_FIELDS: Final = struct.Struct("<4sBBHIIQQQQ32sIIQQ")
_CHECK: Final = struct.Struct("<Q")
HEADER_BYTES: Final = _FIELDS.size + _CHECK.size
NO_DIGEST: Final = bytes(32)

CODEC_NONE: Final = 0
CODEC_ZSTD: Final = 1
#: Level 1 takes 0.5 microseconds for a record of 300 bytes and saves 80 %; lz4 costs the same here
#: and saves 70 %.
_ZSTD_LEVEL: Final = 1
#: A payload that claims to be larger is damage, not data.
MAX_RAW_BYTES: Final = 256 * 1024 * 1024


class Kind(IntEnum):
    """What an entry records."""

    BLOCK = 1  #: records: first_seq, count, hash and digest behind them
    CLAIM = 2  #: a new epoch; first_seq is where the chain begins
    PARK = 3  #: records that are parked
    UNPARK = 4  #: and removed again
    VERIFIED = 5  #: recomputed up to and with first_seq


class BadEntry(Exception):
    """These bytes are no sound header, payload or trailer; the message says why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A header's fields.

    Attributes:
        number: its place in the volume, from 0.
        hash, digest: the symbol's position behind a block.
        stored_bytes, raw_bytes: size of the payload as it lies there, and decompressed.
        payload_check: over the payload as it lies there.
        previous_check: `check` of the entry before it.
    """

    kind: Kind
    symbol_id: int
    count: int
    number: int
    first_seq: int
    epoch: int
    hash: int
    digest: bytes
    codec: int
    stored_bytes: int
    raw_bytes: int
    payload_check: int
    previous_check: int

    @property
    def size_bytes(self) -> int:
        """All of it, with both copies of the header."""
        return 2 * HEADER_BYTES + self.stored_bytes

    @property
    def last_seq(self) -> int:
        """The last record of a block."""
        return self.first_seq + self.count - 1

    def packed(self, magic: bytes = HEADER_MAGIC) -> bytes:
        """The header, or the trailer."""
        fields = _FIELDS.pack(
            magic,
            FORMAT,
            self.kind,
            self.codec,
            self.symbol_id,
            self.count,
            self.number,
            self.first_seq,
            self.epoch,
            self.hash,
            self.digest,
            self.stored_bytes,
            self.raw_bytes,
            self.payload_check,
            self.previous_check,
        )
        return fields + _CHECK.pack(xxh3_64_intdigest(fields))

    def placed(self, number: int, previous_check: int) -> Entry:
        """The same at its place in a volume."""
        return replace(self, number=number, previous_check=previous_check)


def check_of(header: bytes) -> int:
    """The check at the end of a packed header."""
    check: int = _CHECK.unpack_from(header, _FIELDS.size)[0]
    return check


def unpack(data: bytes, magic: bytes = HEADER_MAGIC) -> Entry:
    """The entry whose header these bytes are.

    Raises:
        BadEntry: wrong magic, check, format or kind.
    """
    if len(data) != HEADER_BYTES:
        raise BadEntry(f"{len(data)} of {HEADER_BYTES} bytes of a header")
    (found, format_, kind, codec, symbol_id, count, number, first_seq, epoch, hash_, digest,
     stored, raw, payload_check, previous) = _FIELDS.unpack_from(data)  # fmt: skip
    if found != magic:
        raise BadEntry("it does not begin as an entry does")
    if check_of(data) != xxh3_64_intdigest(data[: _FIELDS.size]):
        raise BadEntry("its header fails its check")
    if format_ != FORMAT or codec > CODEC_ZSTD or raw > MAX_RAW_BYTES:
        raise BadEntry(f"its header has format {format_}, codec {codec}, {raw} bytes")
    try:
        known = Kind(kind)
    except ValueError:
        raise BadEntry(f"its header has kind {kind}") from None
    return Entry(
        kind=known,
        symbol_id=symbol_id,
        count=count,
        number=number,
        first_seq=first_seq,
        epoch=epoch,
        hash=hash_,
        digest=digest,
        codec=codec,
        stored_bytes=stored,
        raw_bytes=raw,
        payload_check=payload_check,
        previous_check=previous,
    )


def compress(raw: bytes) -> tuple[int, bytes]:
    """The codec used, and the payload under it."""
    if len(raw) < 64:
        return CODEC_NONE, raw
    import pyarrow as pa  # not for help

    return CODEC_ZSTD, pa.Codec("zstd", _ZSTD_LEVEL).compress(raw, asbytes=True)


def decompress(entry: Entry, stored: bytes) -> bytes:
    """The payload of `entry` from its stored form.

    Raises:
        BadEntry: it fails its check or does not decompress to its size.
    """
    if xxh3_64_intdigest(stored) != entry.payload_check:
        raise BadEntry("its payload fails its check")
    if entry.codec == CODEC_NONE:
        raw = stored
    else:
        import pyarrow as pa  # not for help

        try:
            raw = pa.Codec("zstd").decompress(stored, entry.raw_bytes, asbytes=True)
        except (OSError, pa.ArrowException) as error:
            raise BadEntry(f"its payload does not decompress: {error}") from error
    if len(raw) != entry.raw_bytes:
        raise BadEntry(f"its payload has {len(raw)} bytes, not {entry.raw_bytes}")
    return raw


def make(
    kind: Kind,
    symbol_id: int,
    *,
    raw: bytes = b"",
    count: int = 0,
    first_seq: int = 0,
    epoch: int = 0,
    hash_: int = 0,
    digest: bytes = NO_DIGEST,
) -> tuple[Entry, bytes]:
    """An entry not yet placed, and its stored payload: all the work that needs no lock."""
    codec, stored = compress(raw)
    entry = Entry(
        kind=kind,
        symbol_id=symbol_id,
        count=count,
        number=0,
        first_seq=first_seq,
        epoch=epoch,
        hash=hash_,
        digest=digest,
        codec=codec,
        stored_bytes=len(stored),
        raw_bytes=len(raw),
        payload_check=xxh3_64_intdigest(stored),
        previous_check=0,
    )
    return entry, stored


_ITEM: Final = struct.Struct("<QBI")
_KEY: Final = struct.Struct("<Q32s")
_REASONS: Final = ("gap", "link", "fork")

#: What distinguishes two parked records of one symbol: sequence and SHA-256 of the body.
Key = tuple[int, bytes]


def key_of(record: Parked) -> Key:
    """The key of a parked record."""
    return record.seq, hashlib.sha256(record.body).digest()


def pack_parked(records: Iterable[Parked]) -> bytes:
    """seq u64, reason u8, length u32, body; one after the other."""
    pieces = []
    for record in records:
        pieces.append(_ITEM.pack(record.seq, _REASONS.index(record.reason), len(record.body)))
        pieces.append(record.body)
    return b"".join(pieces)


def unpack_parked(symbol_id: int, raw: bytes) -> Iterator[Parked]:
    """The records of one entry."""
    offset = 0
    while offset < len(raw):
        seq, reason, size = _ITEM.unpack_from(raw, offset)
        offset += _ITEM.size
        yield Parked(symbol_id, seq, raw[offset : offset + size], _REASONS[reason])
        offset += size


def pack_keys(keys: Iterable[Key]) -> bytes:
    """seq u64, SHA-256; one after the other."""
    return b"".join(_KEY.pack(*key) for key in keys)


def unpack_keys(raw: bytes) -> Iterator[Key]:
    """The keys of one entry."""
    yield from _KEY.iter_unpack(raw)


_SEARCH_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Found:
    """A sound entry (as far as its two headers show)."""

    offset: int
    entry: Entry
    check: int


@dataclass(frozen=True, slots=True)
class CorruptRange:
    """A range of the file that is not what was written.

    Attributes:
        offset, end: the range; `end` is where the next sound entry begins, or the file ends.
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
        offset, size: the range; an entry begins at `offset`.
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
