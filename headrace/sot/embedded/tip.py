"""How far a volume went when its tip was last written: if it is shorter now, its end was cut off.

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
from xxhash import xxh3_64_hexdigest

from headrace.sot.embedded.files import sync_folder, write_all
from headrace.sot.exceptions import DamagedLog

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
        raise _damaged(path, "it is a folder") from None
    body = content[17:-1]
    if content != xxh3_64_hexdigest(body).encode() + b" " + body + b"\n":
        raise _damaged(path, "it fails its check")
    try:
        tip = msgspec.json.decode(body, type=_Tip)
        heads = {symbol: int(next_seq) for symbol, next_seq in tip.heads}
        return Tip(tip.size_bytes, tip.entries, int(tip.last_check, 16), heads)
    except (msgspec.DecodeError, ValueError) as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, reason: str) -> DamagedLog:
    return DamagedLog(
        str(path),
        reason,
        hint="It says how far the volume beside it went; once that is verified (headrace sot "
        "verify), this file may be removed, and the next run writes it anew",
    )
