"""What commands that only read a lake share: its store, and files that are written beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from headrace.errors import ConfigurationError
from headrace.lake import Lake, Store
from headrace.lake.opening import make_store
from headrace.paths import publish_new, real_path
from headrace.pull.request import BLOCK_PREFIX
from headrace.settings import load_settings


@contextmanager
def opened_store(option: str, *, quiet: bool) -> Iterator[Store]:
    """The lake's store; a lake that is a saved block is asked for at a Prefect API.

    Args:
        option: a folder, s3://bucket/prefix or block:NAME; empty for HEADRACE_LAKE.
        quiet: say nothing of an API that is started.

    Raises:
        LakeUnusable: its location or settings cannot work.
    """
    settings = load_settings()
    location = option or settings.lake
    if not location.startswith(BLOCK_PREFIX):
        yield make_store(location)
        return
    # Loading them takes time that a folder has not to wait.
    from headrace.cli.server import api_for_run
    from headrace.cli.server.run import say_on_stderr

    with api_for_run(settings.home, say=(lambda _line: None) if quiet else say_on_stderr):
        from blocks.resolve import lake_of

        yield lake_of(location).store()


def check_place(output: Path, lake: Lake, *, force: bool) -> None:
    """Look whether a file can be written there.

    Raises:
        ConfigurationError: it is in the lake, is a folder or in none, or is there already and
            `force` is not given.
    """
    place = real_path(output)
    if place.is_relative_to(lake.location):
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
