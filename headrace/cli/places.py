"""The lake and the quotas that commands look at, by the settings or by the block that they name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.lake import Store
from headrace.lake.opening import make_store
from headrace.pull.request import BLOCK_PREFIX
from headrace.quota.location import Place
from headrace.settings import Settings, load_settings


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


def place_of_quotas(settings: Settings) -> Place:
    """Where quotas live: a folder or a server, by the settings or by the block that they name.

    Raises:
        ConfigurationError: what they say cannot be used.
    """
    if not settings.quota.get_secret_value().startswith(BLOCK_PREFIX):
        return settings.quota_place
    from headrace.cli.server import api_for_run  # Prefect takes a second to import

    with api_for_run(settings.home, say=lambda _line: None):
        from blocks.resolve import quota_place

        return quota_place(settings)
