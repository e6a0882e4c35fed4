"""What commands that only read a lake share: its store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.lake import Store
from headrace.lake.opening import make_store
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
