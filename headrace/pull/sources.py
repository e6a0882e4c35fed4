"""Where trades come from, and that a lake never mixes two origins of one product.

A rehearsal against a simulator with the lake of the real exchange would otherwise put made-up
trades among real ones, under names that say they are the same.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from headrace.errors import ConfigurationError
from headrace.lake import RawLake

#: What leases, checkpoints and the lake call the exchange.
EXCHANGE = "coinbase"

_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


class ForeignSource(ConfigurationError):
    """The lake holds trades of the product that came from another host."""

    def __init__(self, product: str, stored: str, asked: str) -> None:
        super().__init__(
            f"{product}: the lake holds trades from {stored}, this run would add some from {asked}",
            hint="Use another lake for another source (--lake)",
        )
        self.product = product
        self.stored = stored
        self.asked = asked


def source_host(base_url: str) -> str:
    """The host that answers, without port or credentials; every name of this machine is one."""
    host = urlsplit(base_url).hostname or ""
    return "localhost" if host in _LOOPBACK else host


def check_source(lake: RawLake, product: str, host: str) -> None:
    """Look at the newest part's footer.

    Raises:
        ForeignSource: it came from another host.
    """
    sources = lake.newest_sources(product)
    if sources and host not in sources:
        raise ForeignSource(product, " and ".join(sources), host)
