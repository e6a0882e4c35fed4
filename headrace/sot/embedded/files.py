"""What a volume needs of the file system: to appear whole, to be written whole, to keep a copy."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from xxhash import xxh3_64_intdigest

from headrace.paths import publish_new
from headrace.sot.embedded.entry import FORMAT
from headrace.sot.embedded.walk import TornTail

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
    """Let the file appear with its preamble: an empty one could not be told from damage.

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
