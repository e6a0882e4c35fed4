"""Files for people, beside a lake: what a query gives, the page of a lake."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from headrace.errors import ConfigurationError
from headrace.paths import publish_new, real_path


def check_place(output: Path, location: str, *, force: bool) -> None:
    """Look whether a file can be written there.

    Args:
        output: the file.
        location: of the lake that it is about.
        force: one that is there may be replaced.

    Raises:
        ConfigurationError: it is in the lake, is a folder or in none, or is there already and
            `force` is not given.
    """
    place = real_path(output)
    if place.is_relative_to(location):
        raise ConfigurationError(f"{output} is in the lake", hint="Write to another folder")
    if place.is_dir() or not place.parent.is_dir():
        raise ConfigurationError(f"{output} cannot be written", hint="Name a file in a folder")
    if place.exists() and not force:
        raise ConfigurationError(f"{output} is there already", hint="Repeat with --force")


@contextmanager
def written_whole(output: Path, *, force: bool) -> Iterator[BinaryIO]:
    """A file that has its name when all of it is written.

    Raises:
        ConfigurationError: another process has made one meanwhile, and `force` is not given.
    """
    draft = output.with_name(f".{output.name}.{token_hex(8)}.tmp")
    try:
        with draft.open("xb") as sink:
            yield sink
            sink.flush()
            os.fsync(sink.fileno())
        if force:
            draft.replace(output)
        elif not publish_new(draft, output):
            raise ConfigurationError(f"{output} is there already", hint="Repeat with --force")
    finally:
        draft.unlink(missing_ok=True)
