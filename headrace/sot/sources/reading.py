"""One stream of chunks from all sources; how a source begins decides its format."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import BinaryIO, Final, cast

from headrace.errors import HeadraceError
from headrace.lake.exceptions import StoreError
from headrace.sot.exceptions import MalformedInput, SourceUnusable
from headrace.sot.frames import STREAM_NAME, Chunk
from headrace.sot.sources.framed import Key, locate_malformed, read_frames
from headrace.sot.sources.json_lines import read_json_lines
from headrace.sot.sources.places import Place, UnbufferedReader, peekable

_PARQUET_MAGIC: Final = b"PAR1"
#: How it begins, what it is, and what makes UTF-8 or the packed content of it.
_UNREADABLE: Final = (
    (b"\xff\xfe\x00\x00", "UTF-32 text, JSON lines are UTF-8", "iconv -f UTF-32 -t UTF-8"),
    (b"\x00\x00\xfe\xff", "UTF-32 text, JSON lines are UTF-8", "iconv -f UTF-32 -t UTF-8"),
    (b"\xff\xfe", "UTF-16 text, JSON lines are UTF-8", "iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "UTF-16 text, JSON lines are UTF-8", "iconv -f UTF-16 -t UTF-8"),
    (b"{\x00", "UTF-16 text, JSON lines are UTF-8", "iconv -f UTF-16LE -t UTF-8"),
    (b"\x00{", "UTF-16 text, JSON lines are UTF-8", "iconv -f UTF-16BE -t UTF-8"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "zstd -dc"),
    (b"BZh", "compressed with bzip2", "bzip2 -dc"),
    (b"\xfd7zXZ", "compressed with xz", "xz -dc"),
    (b"\x04\x22\x4d\x18", "compressed with lz4", "lz4 -dc"),
    (b"PK\x03\x04", "a zip archive", "unzip -p"),
)


class Format(StrEnum):
    """How a source is written."""

    AUTO = "auto"  #: by how it begins
    FRAMES = "frames"
    JSON_LINES = "jsonl"
    PARQUET = "parquet"


class Records:
    """The records of some places, to be read once; and where in them a malformed one stands.

    Args:
        places: what to read, one after the other.
        format_: how it is written; AUTO looks at each.
        chained: whether records carry hashes (frames are not looked into here).
    """

    def __init__(self, places: Iterable[Place], format_: Format, chained: bool) -> None:
        self._places = list(places)
        self._format = format_
        self._chained = chained

    def __iter__(self) -> Iterator[Chunk]:
        before = 0
        for place in self._places:
            records = 0
            try:
                with place.open() as raw:
                    file = peekable(raw, again=place.again)
                    for chunk in _reader(place, file, self._format, self._chained):
                        yield chunk
                        records += chunk.records
            except (OSError, EOFError, zlib.error, SourceUnusable, StoreError) as error:
                raise _broken_off(place, error, records, before) from error
            before += records

    def locate(self, wanted: set[Key]) -> dict[Key, str]:
        """See `locate_malformed`."""
        return locate_malformed(self._places, wanted)


def read_places(
    places: Iterable[Place], *, format_: Format = Format.AUTO, chained: bool = True
) -> Records:
    """The records of all places, one place after the other.

    Args:
        places: what to read.
        format_: how it is written; AUTO looks at each.
        chained: whether records carry hashes (frames are not looked into here).

    Iterating raises:
        MalformedInput: something in them is no record, or cannot be read any more; what came
            before was handed on.
        SourceUnusable, StoreError: nothing can be read at all.
    """
    return Records(places, format_, chained)


def _broken_off(place: Place, error: Exception, records: int, before: int) -> HeadraceError:
    """What to say of a place that fails: once records were handed on, they are kept."""
    reason = (isinstance(error, OSError) and error.strerror) or str(error)
    if isinstance(error, HeadraceError):
        if not (records or before):
            return error
        reason = error.reason if isinstance(error, SourceUnusable) else error.message
    if not (records or before):
        return SourceUnusable(place.name, reason)
    return MalformedInput(
        place.name,
        f"behind record {records}",
        "",
        f"cannot be read: {reason}",
        hint="Write it again once it can be: what is stored is passed over",
    )


def _reader(
    place: Place, file: io.BufferedReader | UnbufferedReader, format_: Format, chained: bool
) -> Iterator[Chunk]:
    found = _looks_like(file) if format_ is Format.AUTO else format_
    if found is Format.FRAMES:
        return read_frames(place.name, file)
    if found is Format.PARQUET:
        if not file.seekable():
            raise SourceUnusable(
                place.name,
                "Parquet needs random access",
                hint="Name the file itself instead of a pipe or of a gzip around it",
            )
        # pyarrow is there anyway; its Parquet part is not needed for the other formats.
        from headrace.sot.sources.parquet import read_parquet

        return read_parquet(place.name, cast(BinaryIO, file), chained=chained)
    _refuse_unreadable(place.name, file.peek(len(STREAM_NAME)))
    return read_json_lines(place.name, file, chained=chained)


def _looks_like(file: io.BufferedReader | UnbufferedReader) -> Format:
    begins = file.peek(len(STREAM_NAME))
    if begins[: len(STREAM_NAME)] == STREAM_NAME:
        return Format.FRAMES
    return Format.PARQUET if begins[: len(_PARQUET_MAGIC)] == _PARQUET_MAGIC else Format.JSON_LINES


def _refuse_unreadable(name: str, begins: bytes) -> None:
    """Name what people have at hand in place of JSON lines, by how it begins."""
    for mark, what, command in _UNREADABLE:
        if begins.startswith(mark):
            raise SourceUnusable(
                name,
                f"it is {what}",
                hint=f"Convert it on the way in: {command} FILE | headrace sot write - ...",
            )
