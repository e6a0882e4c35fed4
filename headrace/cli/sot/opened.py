"""A log opened for a command that is no flow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from headrace.cli.console import silence_prefect_console
from headrace.cli.server import api_for_run
from headrace.pull.request import BLOCK_PREFIX
from headrace.settings import load_settings
from headrace.sot.opening import open_store
from headrace.sot.store import SotStore


@contextmanager
def opened_store(option: str) -> Iterator[SotStore]:
    """The store that an option names; nothing is made. Prefect is needed for a block only.

    Raises:
        StoreMisconfigured, StoreUnavailable, ConfigurationError: it cannot be used.
    """
    settings = load_settings()
    location = option or settings.sot
    with ExitStack() as opened:
        if location.startswith(BLOCK_PREFIX):
            silence_prefect_console()
            opened.enter_context(api_for_run(settings.home, say=lambda _line: None))
            from blocks.resolve import sot_store_of

            store = sot_store_of(location).open(create=False)
        else:
            store = open_store(location, create=False)
        opened.callback(store.close)
        yield store
