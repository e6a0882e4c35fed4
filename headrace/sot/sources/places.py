"""From a name (file, folder, S3 prefix, `-`) to files in a set order, and to their bytes.

A pipe is read as its bytes arrive, in pieces of any size; gzip is unpacked.
"""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol, cast

from headrace.sot.exceptions import SourceUnusable
from headrace.sot.frames import CHUNK_BYTES
from headrace.stopping import STOP, StopEvent

if TYPE_CHECKING:
    from headrace.lake.s3 import S3Store
    from headrace.lake.s3_settings import S3Settings


STANDARD_INPUT: Final = "-"
_SPAN_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Place:
    """One file, object or pipe.

    Attributes:
        name: as a person would write it.
        open: gives it from the beginning; a pipe only once.
        again: whether it can be opened a second time.
    """

    name: str
    open: Callable[[], BinaryIO]
    again: bool = True


def find_places(
    source: str, *, s3: S3Settings | None = None, stop: StopEvent = STOP
) -> list[Place]:
    """The files of `source`, by name; hidden ones and those that begin with `_` are left out.

    Args:
        source: a file, a folder (its files, not those of folders in it), `s3://bucket/prefix`
            (an object, or those directly under the prefix) or `-` for standard input.
        s3: how to reach S3.
        stop: ends waits between attempts at S3.

    Raises:
        SourceUnusable: there is nothing to read.
        LakeUnusable, StoreError: S3 says no.
    """
    if source == STANDARD_INPUT:
        return [Place("standard input", _standard_input, again=False)]
    if "://" in source:
        return _objects(source, s3, stop)
    path = Path(source)
    if path.is_dir():
        files = sorted(entry for entry in path.iterdir() if _counts(entry.name) and entry.is_file())
        if not files:
            raise SourceUnusable(source, "the folder holds no files")
        return [_file(file) for file in files]
    if not path.exists():
        raise SourceUnusable(source, "there is no such file")
    return [_file(path)]


def _standard_input() -> BinaryIO:
    if sys.stdin is None or sys.stdin.closed:
        raise SourceUnusable("standard input", "it is closed")
    return sys.stdin.buffer


def _file(path: Path) -> Place:
    def opened() -> BinaryIO:
        try:
            return path.open("rb", buffering=0)
        except OSError as error:
            raise SourceUnusable(str(path), error.strerror or str(error)) from error

    return Place(str(path), opened, again=path.is_file())


def _counts(name: str) -> bool:
    return name[0] not in "._"


def _objects(source: str, s3: S3Settings | None, stop: StopEvent) -> list[Place]:
    folder, _, last = source.rstrip("/").rpartition("/")
    from headrace.lake.opening import make_store  # not for help

    as_prefix = make_store(source.rstrip("/"), s3=s3, stop=stop)
    found = sorted(as_prefix.entries(""), key=lambda entry: entry.key)
    kept = [entry for entry in found if _counts(entry.key)]
    store = as_prefix
    if not kept and folder.count("/") >= 2:
        store = make_store(folder, s3=s3, stop=stop)
        kept = [entry for entry in store.entries("") if entry.key == last]
    if not kept:
        raise SourceUnusable(source, "there is no such object, and none under that prefix")
    return [_object(store, entry.key, entry.size_bytes) for entry in kept]  # type: ignore[arg-type]


def _object(store: S3Store, key: str, size: int) -> Place:
    return Place(store.place(key), lambda: io.BufferedReader(_Spans(store, key, size), _SPAN_BYTES))


class _Spans(io.RawIOBase):
    """An object read in spans, so that memory does not depend on its size."""

    def __init__(self, store: S3Store, key: str, size: int) -> None:
        super().__init__()
        self._store = store
        self._key = key
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        wanted = min(len(buffer), self._size - self._at)
        if wanted <= 0:
            return 0
        content = self._store.span(self._key, self._at, wanted)
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)


#: The longest of the marks by which formats are recognised.
_MARK_BYTES: Final = 8


_GZIP_MAGIC: Final = b"\x1f\x8b"


class Readable(Protocol):
    """What readers of frames and lines need of a file."""

    def read(self, size: int, /) -> bytes:
        """Up to so many bytes, but not none before the end."""


class UnbufferedReader(io.RawIOBase):
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
        while not self._begun and (more := self._read_some(_MARK_BYTES)):
            self._begins += more
            self._begun = len(self._begins) >= _MARK_BYTES
        self._begun = True
        return self._begins

    def read(self, size: int = -1, /) -> bytes:
        """What is there, up to `size` bytes; nothing only at the end."""
        if self.peek():
            given, self._begins = self._begins[:size], self._begins[size:]
            return given
        return self._read_some(size)

    def close(self) -> None:
        """Close the pipe."""
        if not self.closed:
            self._pipe.close()
        super().close()

    def _read_some(self, size: int) -> bytes:
        read1 = getattr(self._pipe, "read1", None)
        return cast(bytes, read1(size) if read1 is not None else self._pipe.read(size)) or b""


def peekable(raw: BinaryIO, *, again: bool) -> io.BufferedReader | UnbufferedReader:
    """What a source holds, from its beginning; of gzip what is packed in it.

    Args:
        raw: the opened source, at its beginning.
        again: whether it is a file that can be opened a second time, hence no pipe.

    Reading from it raises OSError, EOFError or zlib.error where gzip is damaged or cut off.
    """
    file: io.BufferedReader | UnbufferedReader
    if not again:
        file = UnbufferedReader(raw)
    elif isinstance(raw, io.BufferedReader):
        file = raw
    else:
        file = io.BufferedReader(cast(io.RawIOBase, raw), CHUNK_BYTES)
    if file.peek(len(_GZIP_MAGIC))[: len(_GZIP_MAGIC)] == _GZIP_MAGIC:
        return UnbufferedReader(cast(BinaryIO, gzip.GzipFile(fileobj=cast(BinaryIO, file))))
    return file
