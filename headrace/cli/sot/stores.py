"""The log that an option names, for commands that read it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated

import typer

from headrace.pull.request import BLOCK_PREFIX
from headrace.settings import load_settings
from headrace.sot.opening import open_store
from headrace.sot.store import SotStore

StoreOption = Annotated[
    str, typer.Option(help="A folder, cql://HOST/KEYSPACE or block:NAME. [HEADRACE_SOT]")
]
SymbolsOption = Annotated[
    list[int] | None, typer.Option("--symbols", help="Only this one (repeatable); none: all.")
]


@contextmanager
def opened(option: str) -> Iterator[SotStore]:
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
