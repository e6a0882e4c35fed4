"""Files that appear whole and durable, or not at all; and those for people, beside a lake."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from headrace.errors import ConfigurationError
from headrace.paths import publish_new, real_path


def put_whole(path: Path, content: bytes, *, replace: bool, mode: int = 0o600) -> bool:
    """Let a file appear whole and durable; return whether it did.

    Args:
        path: in a folder that exists.
        content: all of it.
        replace: the file that is there, if there is one; else that one stays.
        mode: of the new file.

    Raises:
        OSError: the disk does not take it; what was there stays.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    published = True
    try:
        write_new(draft, content, mode=mode)
        if replace:
            draft.replace(path)
        else:
            published = publish_new(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(path.parent)
    return published


def write_new(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Write a file that does not exist yet; durable when it returns, but for its name."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        write_all(descriptor, memoryview(content), 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, left: memoryview, at: int) -> None:
    """Write all of it, however little the system takes at once: a disk that fills up takes a part
    of what it is given, and says so with the next call only.
    """
    while left:
        written = os.pwrite(descriptor, left, at)
        left, at = left[written:], at + written


def sync_folder(folder: Path) -> None:
    """Make the entries of a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
    draft = output.with_name(f".{output.name}.{secrets.token_hex(8)}.tmp")
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
