"""Where a replay goes: a file that appears when it is whole, or standard output."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from headrace.errors import ConfigurationError
from headrace.output import abandon_stdout
from headrace.sot.exceptions import StoreUnavailable

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
        raise ConfigurationError("a replay needs a file to go to", hint="--out FILE, or - ")
    if path.exists():
        raise ConfigurationError(
            f"{out} exists already, and is not written over", hint="Choose another name"
        )
    if not path.parent.is_dir():
        raise ConfigurationError(f"the folder of {out} does not exist", hint="Make it first")
