"""Lakes, quotas and logs that commands look at, by the settings or by the block that they name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated

import typer

from headrace.lake import Store
from headrace.lake.opening import make_store
from headrace.pull.request import BLOCK_PREFIX
from headrace.quota.location import Place
from headrace.settings import Settings, load_settings
from headrace.sot.opening import open_store
from headrace.sot.store import SotStore


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


StoreOption = Annotated[
    str, typer.Option(help="A folder, cql://HOST/KEYSPACE or block:NAME. [HEADRACE_SOT]")
]
SymbolsOption = Annotated[
    list[int] | None, typer.Option("--symbols", help="Only this one (repeatable); none: all.")
]


@contextmanager
def opened_log(option: str) -> Iterator[SotStore]:
    """The store that an option names; nothing is made. Prefect is needed for a block only.

    Raises:
        StoreMisconfigured, StoreUnavailable, ConfigurationError: it cannot be used.
    """
    settings = load_settings()
    location = option or settings.sot
    with ExitStack() as held:
        if location.startswith(BLOCK_PREFIX):
            from headrace.cli.server import api_for_run  # not for help

            held.enter_context(api_for_run(settings.home, say=lambda _line: None))
            from blocks.resolve import sot_store_of

            store = sot_store_of(location).open(create=False)
        else:
            store = open_store(location, create=False)
        held.callback(store.close)
        yield store
