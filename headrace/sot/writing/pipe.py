"""Messages of a megabyte over a pipe, without the copies that general-purpose connections make.

A message is its length (u64, little endian) and its bytes. At these rates every copy into fresh
memory counts: what is sent goes to the kernel in pieces, what is received goes into one buffer.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Sequence
from typing import Final

_LENGTH_BYTES: Final = 8
#: Pieces per call; systems take 1024 at least.
_PIECES: Final = 512
#: The default of 64 kB would cost a change of process for each of them.
_CAPACITY: Final = 1024 * 1024


def make_pipe() -> tuple[int, int]:
    """Descriptors to read from and to write to; neither is inherited unasked."""
    reader, writer = os.pipe()
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):  # a system may allow less; then it is slower
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _CAPACITY)
    return reader, writer


def send(descriptor: int, pieces: Sequence[bytes]) -> None:
    """Send one message.

    Raises:
        OSError: nobody reads any more.
    """
    size = sum(map(len, pieces))
    left = [memoryview(piece) for piece in (size.to_bytes(_LENGTH_BYTES, "little"), *pieces)]
    while left:
        written = os.writev(descriptor, left[:_PIECES])
        done = 0
        while done < len(left) and written >= len(left[done]):
            written -= len(left[done])
            done += 1
        left = left[done:]
        if written:
            left[0] = left[0][written:]


def receive(descriptor: int) -> bytearray:
    """The next message.

    Raises:
        EOFError: nobody writes any more.
    """
    length = _filled(descriptor, _LENGTH_BYTES)
    return _filled(descriptor, int.from_bytes(length, "little"))


def _filled(descriptor: int, size: int) -> bytearray:
    buffer = bytearray(size)
    view = memoryview(buffer)
    got = 0
    while got < size:
        count = os.readv(descriptor, [view[got:]])
        if not count:
            raise EOFError
        got += count
    view.release()
    return buffer
