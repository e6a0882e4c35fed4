"""A quota in a file, on Redis and on PostgreSQL: what a booking costs, and how exact it is.

Servers are started here, on loopback, with the settings of the tests.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import SecretStr

from bench.quota.fleet import Want, run
from bench.quota.worker import SERVER
from headrace.quota import Lane, QuotaConfig, open_gate, parse_rates
from headrace.quota.location import Place, QuotaServer, read_server
from headrace.quota.selftest import excess, jain, percentile, used_share
from headrace.quota.status import reset_quota
from tests.support.postgres import running_postgres
from tests.support.redis import running_redis

_BOOKINGS = 2000
_SECOND = 1_000_000_000


def measure(*, quick: bool) -> list[dict[str, Any]]:
    """One row for each place and load."""
    rows = []
    with _places() as places:
        for name, place in places.items():
            rows.append({"place": name, "load": "a booking, alone", **_alone(place)})
            for processes, rate in ((4, 15), (4, 100), (12, 500)):
                load = f"{processes} processes at {rate}/s"
                result = _together(place, processes, rate, 5.0 if quick else 20.0)
                rows.append({"place": name, "load": load, **result})
    return rows


@contextmanager
def _places() -> Iterator[dict[str, Place]]:
    with ExitStack() as opened:
        folder = Path(opened.enter_context(TemporaryDirectory(prefix="headrace-bench-")))
        redis = opened.enter_context(running_redis())
        postgres = opened.enter_context(running_postgres())
        yield {
            "file": folder,
            "redis": read_server(SecretStr(redis.url)),
            "postgres": read_server(SecretStr(postgres.url())),
        }


def _alone(place: Place) -> dict[str, Any]:
    """One process books and settles, one permit at a time."""
    config = QuotaConfig(name="alone", rates=parse_rates("100000/m"))
    took_ms = []
    with open_gate(place, config) as gate:
        reset_quota(place, config.name, bookings=False)
        book = gate.session.book
        assert book is not None
        cpu = time.process_time()
        for _ in range(_BOOKINGS):
            began = time.perf_counter()
            slot = book.book(Lane.BACKFILL)
            took_ms.append((time.perf_counter() - began) * 1e3)
            assert not isinstance(slot, int)
            book.settle(slot, gate.clock.now())
        cpu = time.process_time() - cpu
        slack_ms = gate.clock.slack / 1e6
    return _row(
        permits=_BOOKINGS,
        p50_ms=percentile(took_ms, 0.5),
        p99_ms=percentile(took_ms, 0.99),
        cpu_ms=cpu / _BOOKINGS * 1e3,
        slack_ms=slack_ms,
    )


def _together(place: Place, processes: int, rate: int, seconds: float) -> dict[str, Any]:
    """Greedy processes that share one quota."""
    if isinstance(place, QuotaServer):
        os.environ[SERVER] = place.url.get_secret_value()
    try:
        done = run("headrace", f"{rate}/s", [Want()] * processes, seconds)
    finally:
        os.environ.pop(SERVER, None)
    grants = done.all_grants
    over = excess(grants, rate, _SECOND)
    return _row(
        permits=len(grants),
        cpu_ms=done.cpu_s / len(grants) * 1e3,
        over=over.permits,
        early_ms=over.early_ms,
        used=used_share(grants, rate, _SECOND),
        fairness=jain([len(one) for one in done.grants]),
        stall_ms=done.stall_ms,
    )


def _row(**known: float) -> dict[str, Any]:
    """What was measured, and blanks for the rest, so that all rows are alike."""
    columns = [
        "permits",
        "p50_ms",
        "p99_ms",
        "cpu_ms",
        "slack_ms",
        "over",
        "early_ms",
        "used",
        "fairness",
        "stall_ms",
    ]
    return {name: round(known[name], 4) if name in known else "" for name in columns}
