"""One stream of chunks out of whatever was named, told apart by how it begins."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import BinaryIO, Final, cast

from headrace.errors import HeadraceError
from headrace.lake.exceptions import StoreError
from headrace.sot.exceptions import MalformedInput, SourceUnusable
from headrace.sot.frames import STREAM_NAME
from headrace.sot.sources.arriving import Arriving
from headrace.sot.sources.chunk import CHUNK_BYTES, Chunk
from headrace.sot.sources.framed import read_frames
from headrace.sot.sources.json_lines import read_json_lines
from headrace.sot.sources.locating import Key, locate_malformed
from headrace.sot.sources.places import Place

_PARQUET_MAGIC: Final = b"PAR1"


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
                    file = _peekable(place, raw)
                    for chunk in _reader(place, file, self._format, self._chained):
                        yield chunk
                        records += chunk.records
            except (OSError, SourceUnusable, StoreError) as error:
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
    reason = error.strerror or str(error) if isinstance(error, OSError) else ""
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
    place: Place, file: io.BufferedReader | Arriving, format_: Format, chained: bool
) -> Iterator[Chunk]:
    found = _looks_like(file) if format_ is Format.AUTO else format_
    if found is Format.FRAMES:
        return read_frames(place.name, file)
    if found is Format.PARQUET:
        if not file.seekable():
            raise SourceUnusable(
                place.name, "Parquet needs random access", hint="Name the file instead of a pipe"
            )
        # pyarrow is there anyway; its Parquet part is not needed for the other formats.
        from headrace.sot.sources.parquet import read_parquet

        return read_parquet(place.name, cast(BinaryIO, file), chained=chained)
    return read_json_lines(place.name, file, chained=chained)


def _looks_like(file: io.BufferedReader | Arriving) -> Format:
    begins = file.peek(len(STREAM_NAME))
    if begins[: len(STREAM_NAME)] == STREAM_NAME:
        return Format.FRAMES
    return Format.PARQUET if begins[: len(_PARQUET_MAGIC)] == _PARQUET_MAGIC else Format.JSON_LINES


def _peekable(place: Place, raw: BinaryIO) -> io.BufferedReader | Arriving:
    if not place.again:
        return Arriving(raw)
    if isinstance(raw, io.BufferedReader):
        return raw
    return io.BufferedReader(cast(io.RawIOBase, raw), CHUNK_BYTES)
