"""Quotas and breakers of many machines, on Redis or PostgreSQL (docs/adr has the reasons).

The rules are those of one machine, and stand where they stood: `headrace.quota.bookings` and its
neighbours, on SQLite. Every process keeps a copy of a quota's tables in memory (`replica`) and
works on that. What a transaction changes there is sent to the server as one change, with the number
of the change that it was made on; the server appends it if that is still the last one, and else
returns those that came in between (`transactions`). So the order of changes is the same for all, as
that of transactions on a file is, and the server knows nothing of slots or lanes: it keeps a list.

1. `transactions`: a quota's copy in one process: transactions, catching up, starting again.
2. `replica`: the tables in memory, and changes as bytes.
3. `server`: what a server has to do; `redis`, `postgres`: the two that do it.
4. `clock`: the server's clock as one process knows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.extras import import_with
from headrace.quota.clock import MS
from headrace.quota.location import QuotaServer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.quota.rates import QuotaRate
    from headrace.quota.shared.server import Keeper
    from headrace.quota.shared.transactions import Ledger


def open_keeper(server: QuotaServer) -> Keeper:
    """A connection to the server of quotas; it is made when it is first used.

    Raises:
        ConfigurationError: the client for it is not installed, or the URL cannot be used.
    """
    if server.on_redis:
        redis = import_with("redis", f"{__name__}.redis")
        keeper: Keeper = redis.RedisKeeper(server)
    else:
        postgres = import_with("postgres", f"{__name__}.postgres")
        keeper = postgres.PostgresKeeper(server)
    return keeper


def open_ledger(server: QuotaServer, name: str, rates: Sequence[QuotaRate] = ()) -> Ledger:
    """A quota on a server, to look at, or to attach a book and a breaker to.

    Args:
        server: which.
        name: of the quota.
        rates: how far back it matters what was given; none for who only looks.

    Raises:
        ConfigurationError: as `open_keeper`.
    """
    from headrace.quota.shared.transactions import Ledger  # not where all is in a folder

    longest = max((rate.interval_ms for rate in rates), default=0)
    return Ledger(open_keeper(server), name, longest * MS)
