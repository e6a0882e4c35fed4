"""The bytes of a source: a pipe as they arrive, in whatever pieces; gzip unpacked."""

from __future__ import annotations

import gzip
import io
from typing import BinaryIO, Final, Protocol, cast

from headrace.sot.sources.chunk import CHUNK_BYTES

#: The longest of the marks by which formats are told apart.
_MARK_BYTES: Final = 8


_GZIP_MAGIC: Final = b"\x1f\x8b"


class Readable(Protocol):
    """What readers of frames and lines need of a file."""

    def read(self, size: int, /) -> bytes:
        """Up to so many bytes, but not none before the end."""
        ...


class Arriving(io.RawIOBase):
    """What a pipe gives, without waiting for more than there is.

    A buffered file waits until as much is there as was asked for: records of a slow engine would
    lie in it unseen until a megabyte of them has come together.

    Args:
        pipe: to read from, closed with this.
    """

    def __init__(self, pipe: BinaryIO) -> None:
        super().__init__()
        self._pipe = pipe
        self._begins = b""
        self._begun = False

    def readable(self) -> bool:
        """It is there to be read."""
        return True

    def peek(self, _size: int = 0) -> bytes:
        """How it begins: as many bytes as a mark has, fewer only where there are no more."""
        while not self._begun and (more := self._some(_MARK_BYTES)):
            self._begins += more
            self._begun = len(self._begins) >= _MARK_BYTES
        self._begun = True
        return self._begins

    def read(self, size: int = -1, /) -> bytes:
        """What is there, up to `size` bytes; nothing only at the end."""
        if self.peek():
            given, self._begins = self._begins[:size], self._begins[size:]
            return given
        return self._some(size)

    def close(self) -> None:
        """Let go of the pipe."""
        if not self.closed:
            self._pipe.close()
        super().close()

    def _some(self, size: int) -> bytes:
        read1 = getattr(self._pipe, "read1", None)
        return cast(bytes, read1(size) if read1 is not None else self._pipe.read(size)) or b""


def peekable(raw: BinaryIO, *, again: bool) -> io.BufferedReader | Arriving:
    """What a source holds, from its beginning; of gzip what is packed in it.

    Args:
        raw: the opened source, at its beginning.
        again: whether it is a file that can be opened a second time, hence no pipe.

    Reading from it raises OSError, EOFError or zlib.error where gzip is damaged or cut off.
    """
    file: io.BufferedReader | Arriving
    if not again:
        file = Arriving(raw)
    elif isinstance(raw, io.BufferedReader):
        file = raw
    else:
        file = io.BufferedReader(cast(io.RawIOBase, raw), CHUNK_BYTES)
    if file.peek(len(_GZIP_MAGIC))[: len(_GZIP_MAGIC)] == _GZIP_MAGIC:
        return Arriving(cast(BinaryIO, gzip.GzipFile(fileobj=cast(BinaryIO, file))))
    return file
