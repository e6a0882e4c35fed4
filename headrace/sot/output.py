"""Where a stream of records is written: a file that appears when it is whole, or standard output.

`WRITERS` write it in any format that is read.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from headrace.errors import ConfigurationError
from headrace.sot.encoding import LENGTH, decode
from headrace.sot.exceptions import StoreUnavailable
from headrace.sot.frames import STREAM_MAGIC, in_groups
from headrace.sot.sources.reading import Format
from headrace.stdout import abandon_stdout

STANDARD_OUTPUT: Final = "-"
#: What a file that is not the whole replay has behind its name.
PARTIAL_SUFFIX: Final = ".partial"
_BUFFER_BYTES: Final = 1024 * 1024


class Target:
    """A file under a temporary name, put into its place by `finish`."""

    def __init__(self, out: str) -> None:
        self._path = None if out == STANDARD_OUTPUT else Path(out)
        self._temporary: Path | None = None
        self.place = out

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Where to write.

        Raises:
            ConfigurationError: the name is taken, or its folder is not there.
            StoreUnavailable: the disk does not take it.
        """
        if self._path is None:
            try:
                yield sys.stdout.buffer
                sys.stdout.buffer.flush()
            except OSError as error:
                abandon_stdout()
                raise StoreUnavailable(
                    "standard output", "writing", error.strerror or str(error)
                ) from error
            return
        check_target(str(self._path))
        temporary = self._path.with_name(f".{self._path.name}.{secrets.token_hex(8)}")
        try:
            with temporary.open("xb", buffering=_BUFFER_BYTES) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            self._temporary = temporary
        except OSError as error:
            raise StoreUnavailable(
                str(self._path), "writing", error.strerror or str(error)
            ) from error
        finally:
            if self._temporary is None:
                temporary.unlink(missing_ok=True)

    def finish(self, *, whole: bool) -> None:
        """Give the file its name; one that is not whole has a suffix that says so."""
        if self._path is None or self._temporary is None:
            return
        final = self._path if whole else self._path.with_name(self._path.name + PARTIAL_SUFFIX)
        self._temporary.replace(final)
        self.place = str(final)
        folder = os.open(final.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def check_target(out: str) -> None:
    """Return if a replay can be written there.

    Raises:
        ConfigurationError: it is empty, taken, or in a folder that does not exist.
    """
    if out == STANDARD_OUTPUT:
        return
    path = Path(out)
    if not out or "\0" in out or path.name in ("", ".", ".."):
        raise ConfigurationError("no file to write to is named", hint="Name a new one, or -")
    if path.exists():
        raise ConfigurationError(
            f"{out} exists already, and is not written over", hint="Choose another name"
        )
    if not path.parent.is_dir():
        raise ConfigurationError(f"the folder of {out} does not exist", hint="Make it first")


#: A group has so many records, or so many bytes: one record may have 16 MiB.
_TOGETHER: Final = 2000
_TOGETHER_BYTES: Final = 4 * 1024 * 1024


def write_frames(bodies: Iterable[bytes], out: BinaryIO) -> int:
    """Write a framed stream; how many records."""
    out.write(STREAM_MAGIC)
    records = 0
    for group in in_groups(bodies, _TOGETHER, _TOGETHER_BYTES, len):
        out.write(b"".join(LENGTH.pack(len(body)) + body for body in group))
        records += len(group)
    return records


def write_json_lines(bodies: Iterable[bytes], out: BinaryIO) -> int:
    """Write one JSON object per line; how many records."""
    encode = msgspec.json.Encoder().encode
    records = 0
    for group in in_groups(bodies, _TOGETHER, _TOGETHER_BYTES, len):
        out.write(b"".join(encode(decode(body)) + b"\n" for body in group))
        records += len(group)
    return records


def write_parquet(bodies: Iterable[bytes], out: BinaryIO) -> int:
    """Write Parquet; how many records."""
    records = 0
    import pyarrow as pa  # not for help
    import pyarrow.parquet as pq

    from headrace.sot.sources.parquet import SCHEMA

    with pq.ParquetWriter(out, SCHEMA, compression="zstd") as writer:
        for group in in_groups(bodies, _TOGETHER, _TOGETHER_BYTES, len):
            # Bytes stay bytes: base64 is JSON's need alone.
            rows = [msgspec.to_builtins(decode(body), builtin_types=(bytes,)) for body in group]
            writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))
            records += len(group)
    return records


WRITERS: Final[dict[Format, Callable[[Iterable[bytes], BinaryIO], int]]] = {
    Format.FRAMES: write_frames,
    Format.JSON_LINES: write_json_lines,
    Format.PARQUET: write_parquet,
}
