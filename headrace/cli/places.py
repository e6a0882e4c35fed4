"""Where what commands look at lives, by the settings or by the block that they name."""

from __future__ import annotations

from headrace.pull.request import BLOCK_PREFIX
from headrace.quota.place import Place
from headrace.settings import Settings


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
