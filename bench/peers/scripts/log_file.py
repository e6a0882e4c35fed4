"""A log as a bare file of frames. Usage: log_file.py STREAM FILE BATCH."""

from __future__ import annotations

import os
import struct
import sys
from itertools import islice
from pathlib import Path

from log_sqlite import frames

_LENGTH = struct.Struct("<I")


def whole_frames(path: Path) -> tuple[int, int]:
    """How many whole frames a file holds, and where the last of them ends."""
    count = end = 0
    if not path.exists():
        return count, end
    size = path.stat().st_size
    with path.open("rb") as file:
        while head := file.read(_LENGTH.size):
            if len(head) < _LENGTH.size:
                break
            after = end + _LENGTH.size + _LENGTH.unpack(head)[0]
            if after > size:
                break
            file.seek(after)
            count, end = count + 1, after
    return count, end


def main(stream: Path, path: Path, batch: int) -> None:
    """Append what is not there."""
    count, end = whole_frames(path)
    with path.open("ab") as file:
        file.truncate(end)
        records = islice(frames(stream), count, None)
        while rows := list(islice(records, batch)):
            file.write(b"".join(frame for _, _, frame in rows))
            file.flush()
            os.fsync(file.fileno())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
