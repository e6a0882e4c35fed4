"""The files of a volume: how they appear whole, are written whole and copied; and its tip.

A log alone cannot show that its end is missing. The tip is a small file beside it; it names every
symbol's head, so that what is missing can be named. A writer replaces it when it closes the volume,
and before that whenever `TIP_EVERY_ENTRIES` entries have been appended since. What a writer that
was killed has appended since then no tip knows.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from xxhash import xxh3_64_hexdigest, xxh3_64_intdigest

from headrace.paths import publish_new
from headrace.sot.embedded.entries import FORMAT, TornTail
from headrace.sot.exceptions import DamagedLog

_NAME: Final = b"HRSOTVOL"
_CHECK_BYTES: Final = 8
#: What stands in front of a volume's first entry.
PREAMBLE_BYTES: Final = len(_NAME) + 8 + _CHECK_BYTES
_FORMAT_AT: Final = slice(12, 16)


def preamble(number: int, format_: int = FORMAT) -> bytes:
    """The first bytes of a volume: its name, its number, the format, a check."""
    fields = _NAME + number.to_bytes(4, "little") + format_.to_bytes(4, "little")
    return fields + xxh3_64_intdigest(fields).to_bytes(_CHECK_BYTES, "little")


def newer_format(found: bytes, number: int) -> int | None:
    """The format of a preamble that is sound but later than ours; None for any other."""
    format_ = int.from_bytes(found[_FORMAT_AT], "little")
    return format_ if format_ > FORMAT and found == preamble(number, format_) else None


def create_volume(path: Path, number: int) -> None:
    """Let the file appear with its preamble: an empty one could not be distinguished from damage.

    Raises:
        OSError: the disk does not take it.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, memoryview(preamble(number)), 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        publish_new(draft, path)  # unless another process was first
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_all(descriptor: int, left: memoryview, at: int) -> None:
    """Write all of it, however little the system takes at once: a disk that fills up takes a part
    of what it is given, and says so with the next call only.
    """
    while left:
        written = os.pwrite(descriptor, left, at)
        left, at = left[written:], at + written


def copy_out(descriptor: int, torn: TornTail, copy: Path) -> None:
    """Keep a torn tail in a file of its own."""
    out = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        write_all(out, memoryview(os.pread(descriptor, torn.size_bytes, torn.offset)), 0)
        os.fsync(out)
    finally:
        os.close(out)


def sync_folder(folder: Path) -> None:
    """Make the entries of a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


#: A tip costs two fsyncs, of the file and of the folder; this often they cannot be felt.
TIP_EVERY_ENTRIES: Final = 4096


class _Tip(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    size_bytes: int
    entries: int
    last_check: str
    heads: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Tip:
    """The end of a volume at some moment.

    Attributes:
        size_bytes, entries, last_check: the file up to there.
        heads: `next_seq` of every symbol that had a chain.
    """

    size_bytes: int
    entries: int
    last_check: int
    heads: dict[int, int]


def write_tip(path: Path, tip: Tip) -> None:
    """Replace the tip as a whole; durable when it returns.

    Raises:
        OSError: if the disk does not take it.
    """
    heads = tuple((symbol, str(next_seq)) for symbol, next_seq in sorted(tip.heads.items()))
    body = msgspec.json.encode(_Tip(tip.size_bytes, tip.entries, f"{tip.last_check:016x}", heads))
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            content = xxh3_64_hexdigest(body).encode() + b" " + body + b"\n"
            write_all(descriptor, memoryview(content), 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def read_tip(path: Path) -> Tip | None:
    """The tip, None if there is none yet.

    Raises:
        DamagedLog: if it is not what was written.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        raise _damaged_tip(path, "it is a folder") from None
    body = content[17:-1]
    if content != xxh3_64_hexdigest(body).encode() + b" " + body + b"\n":
        raise _damaged_tip(path, "it fails its check")
    try:
        tip = msgspec.json.decode(body, type=_Tip)
        heads = {symbol: int(next_seq) for symbol, next_seq in tip.heads}
        return Tip(tip.size_bytes, tip.entries, int(tip.last_check, 16), heads)
    except (msgspec.DecodeError, ValueError) as error:
        raise _damaged_tip(path, str(error)) from error


def _damaged_tip(path: Path, reason: str) -> DamagedLog:
    return DamagedLog(
        str(path),
        reason,
        hint="It says how far the volume beside it went; once that is verified (headrace sot "
        "verify), this file may be removed, and the next run writes a new one",
    )
