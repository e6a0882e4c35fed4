"""One stream of chunks from all sources; how a source begins decides its format.

Frames are the fast way in: their reader looks at lengths only; what follows the chain finds a
malformed record by its symbol and sequence. People need file and byte, so `locate_malformed` looks
through the sources once more.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import BinaryIO, Final, cast

from headrace.errors import HeadraceError
from headrace.lake.exceptions import StoreError
from headrace.sot.encoding import (
    FRAME_ROUTE,
    LENGTH,
    LENGTH_BYTES,
    MAX_BODY_BYTES,
    MIN_FRAME_BYTES,
    check_body,
)
from headrace.sot.exceptions import MalformedInput, MalformedRecord, SourceUnusable
from headrace.sot.frames import (
    CHUNK_BYTES,
    STREAM_MAGIC,
    STREAM_NAME,
    STREAM_VERSION,
    Chunk,
    check_length,
)
from headrace.sot.sources.json_lines import read_json_lines
from headrace.sot.sources.places import Place, Readable, UnbufferedReader, peekable

#: Symbol and sequence of a record.
Key = tuple[int, int]


def read_frames(name: str, file: Readable) -> Iterator[Chunk]:
    """The records of one framed stream.

    Only the framing is looked at here; what follows the chain looks at the rest.

    Args:
        name: of the source, for messages.
        file: at the beginning of the stream.

    Raises:
        MalformedInput: another version, a length that no frame has, or a frame that is cut off;
            after everything before it was handed on.
    """
    _check_magic(name, file.read(len(STREAM_MAGIC)))
    start = len(STREAM_MAGIC)
    number = 0
    rest = b""
    while data := file.read(CHUNK_BYTES):
        run = rest + data
        chunk, used, reason = _gather(run)
        if chunk.records:
            yield chunk
        number += chunk.records
        if reason is not None:
            hint = ""
            if run.startswith(STREAM_NAME, used):
                hint = "Another stream begins here: files were joined. Name their folder instead"
            raise _malformed(name, start + used, number, reason.field, reason.reason, hint)
        start += used
        rest = run[used:]
    if rest:
        reason_text = f"the frame is cut off after {len(rest)} bytes"
        if len(rest) >= LENGTH_BYTES:
            reason_text += f" of {LENGTH.unpack_from(rest)[0] + LENGTH_BYTES}"
        raise _malformed(name, start, number, "", reason_text)


def _gather(run: bytes) -> tuple[Chunk, int, MalformedRecord | None]:
    """The whole frames of `run`, how many bytes they take, and what is wrong behind them."""
    runs: dict[int, list[bytes]] = {}
    unpack = FRAME_ROUTE.unpack_from
    least = MIN_FRAME_BYTES - LENGTH_BYTES
    offset, size, records = 0, len(run), 0
    reason = None
    while size - offset >= MIN_FRAME_BYTES:
        length, symbol_id, _ = unpack(run, offset)
        if not least <= length <= MAX_BODY_BYTES:
            break
        stop = offset + LENGTH_BYTES + length
        if stop > size:
            break
        pieces = runs.get(symbol_id)
        if pieces is None:
            runs[symbol_id] = [run[offset:stop]]
        else:
            pieces.append(run[offset:stop])
        records += 1
        offset = stop
    if size - offset >= LENGTH_BYTES:
        try:
            check_length(LENGTH.unpack_from(run, offset)[0])
        except MalformedRecord as error:
            reason = error
    return Chunk(runs, records, offset), offset, reason


def _check_magic(name: str, found: bytes) -> None:
    if found == STREAM_MAGIC:
        return
    if found[: len(STREAM_NAME)] == STREAM_NAME and len(found) == len(STREAM_MAGIC):
        version = int.from_bytes(found[len(STREAM_NAME) :], "little")
        raise MalformedInput(
            name,
            "byte 0",
            "stream version",
            f"is {version}, this version knows {STREAM_VERSION}",
            hint="Upgrade this installation of headrace" if version > STREAM_VERSION else "",
        )
    raise MalformedInput(
        name,
        "byte 0",
        "stream name",
        f"is {found!r}, a stream of frames begins with {STREAM_NAME.decode()} and a version",
    )


def _malformed(
    name: str, offset: int, number: int, field: str, reason: str, hint: str = ""
) -> MalformedInput:
    return MalformedInput(name, f"byte {offset} (frame {number + 1})", field, reason, hint=hint)


def locate_malformed(places: Iterable[Place], wanted: set[Key]) -> dict[Key, str]:
    """File, byte and number of the frame of each malformed record, as far as it can be found.

    Args:
        places: what was read; pipes cannot be read again and are passed over.
        wanted: symbol and sequence of each.
    """
    found: dict[Key, str] = {}
    for place in places:
        if not place.again:
            continue
        try:
            with place.open() as raw:
                file = peekable(raw, again=True)
                if _read(file, len(STREAM_MAGIC)) == STREAM_MAGIC:
                    _look_through(place.name, file, wanted, found)
        except (OSError, EOFError, zlib.error, SourceUnusable, StoreError):
            continue  # gone since it was read; symbol and sequence are named all the same
        if wanted <= found.keys():
            break
    return found


def _look_through(name: str, file: Readable, wanted: set[Key], found: dict[Key, str]) -> None:
    offset, number = len(STREAM_MAGIC), 0
    while wanted - found.keys():
        head = _read(file, LENGTH_BYTES)
        if len(head) < LENGTH_BYTES:
            return
        try:
            check_length(LENGTH.unpack(head)[0])
        except MalformedRecord:
            return
        body = _read(file, LENGTH.unpack(head)[0])
        number += 1
        key: Key = FRAME_ROUTE.unpack_from(head + body)[1:]
        if key in wanted and key not in found and _is_malformed(body):
            found[key] = f"{name}, byte {offset} (frame {number})"
        offset += len(head) + len(body)


def _read(file: Readable, size: int) -> bytes:
    """All of it, or what there is: an unbuffered file may give less than it was asked for."""
    pieces = []
    while size and (piece := file.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _is_malformed(body: bytes) -> bool:
    try:
        check_body(body)
    except MalformedRecord:
        return True
    return False


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
