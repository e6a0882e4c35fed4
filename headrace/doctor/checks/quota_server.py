"""The server that quotas and circuit breakers of many machines are kept on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

from headrace.doctor.runner import Finding, ok, warning
from headrace.quota import QuotaConfig
from headrace.quota.location import QuotaServer
from headrace.quota.shared import open_keeper
from headrace.quota.shared.server import Keeper
from headrace.quota.status import QuotaStatus, inspect

_ASKED = 20
#: A booking that takes longer than this holds up a quota of many permits a second.
_SLOW_S = 0.02
#: Further off than this, a clock is wrong for leases and ages; quotas do not go by it.
_FAR_S = 5.0


def check_server(server: QuotaServer) -> Iterator[Finding]:
    """What it is, how fast it answers, and how far its clock is from ours.

    Raises:
        HeadraceError: it cannot be reached, or it cannot keep quotas.
    """
    with closing(open_keeper(server)) as keeper:
        latency_s = _latency_s(keeper)
        ahead_s = keeper.clock.ahead / 1e9
        what = f"quotas and breakers are on {server}: {keeper.software}"
    words = f"{what}, answers within {latency_s * 1e3:.1f} ms"
    if latency_s > _SLOW_S:
        yield warning(words, "Each permit waits for an answer: name a server that is nearer")
    else:
        yield ok(words)
    clock = f"its clock is {abs(ahead_s):.3f} s {'ahead of' if ahead_s > 0 else 'behind'} ours"
    if abs(ahead_s) > _FAR_S:
        yield warning(
            f"{server}: {clock}; quotas go by it and are exact all the same",
            "Set the clocks of both by NTP",
        )
    else:
        yield ok(f"{server}: {clock}; quotas go by its clock")


def _latency_s(keeper: Keeper) -> float:
    """The median of some questions."""
    keeper.connect()
    took = []
    for _ in range(_ASKED):
        began = time.monotonic()
        keeper.read("")
        took.append(time.monotonic() - began)
    return sorted(took)[_ASKED // 2]


def shared_quota(server: QuotaServer, name: str) -> tuple[QuotaConfig, QuotaStatus]:
    """A quota that is kept there, and its rates.

    Raises:
        HeadraceError: it cannot be read.
    """
    status = inspect(server, name)
    rates = tuple(window.rate for window in status.book.windows)
    return QuotaConfig(name=name, rates=rates), status
