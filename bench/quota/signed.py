"""A backfill of five products over four API keys, each of which the exchange limits by itself.

One `headrace backfill` process with an Exchange block, answers after 1 s (P50) to 2 s (P95). What
counts is the time from the tenth second on, when the pools are full and the latency is known, to
the one at which the first product has been asked for its last page: so long all want permits.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from bench.quota.backfills import SEED
from headrace.cli.server import managed_api
from headrace.sim import ApiKey, SimulatedExchangeProcess, TokenBucket
from headrace.sim.arrivals import Arrival

RATE, KEYS, PRODUCTS, POOL = 15, 4, 5, 24
LATENCY = "lognormal:p50=1,p95=2"
PAGES, QUICK_PAGES = 700, 400
WARM_UP_S = 10.0


def measure(*, quick: bool) -> list[dict[str, Any]]:
    """One row: requests against what the keys allow."""
    pages = QUICK_PAGES if quick else PAGES
    keys = [
        ApiKey.model_validate(
            {
                "key": f"bench-key-{place}",
                "secret": base64.b64encode(f"secret {place}".encode()).decode(),
                "passphrase": f"bench-passphrase-{place}",
            }
        )
        for place in range(1, KEYS + 1)
    ]
    products = [f"P{number}-USD" for number in range(PRODUCTS)]
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as scratch,
        SimulatedExchangeProcess(
            *(f"{product}:{pages * 1000}" for product in products),
            seed=SEED,
            latency=LATENCY,
            keys=keys,
            key_limits=[TokenBucket(rate_per_s=RATE, burst=RATE)],
        ) as sim,
    ):
        summary = _backfilled(products, sim.url, keys, Path(scratch))
        arrivals = sim.arrivals()
    if summary["status"] != "done":
        raise SystemExit(f"the backfill is {summary['status']}: {summary}")
    return [_row(arrivals, summary)]


def _backfilled(products: list[str], url: str, keys: list[ApiKey], scratch: Path) -> dict[str, Any]:
    from blocks.exchange import Exchange, ExchangeKey

    home = scratch / "home"
    parts = [
        {
            "key": key.key,
            "secret": key.secret.get_secret_value(),
            "passphrase": key.passphrase.get_secret_value(),
        }
        for key in keys
    ]
    with managed_api(home):
        more = [ExchangeKey.model_validate(each) for each in parts[1:]]
        Exchange.model_validate({"base_url": url, "more_keys": more, **parts[0]}).save("signed")
        done = subprocess.run(
            [
                *(sys.executable, "-m", "headrace.cli.main", "backfill", *products, "--json"),
                *("--base-url=block:signed", f"--rate={RATE}/s", f"--lake={scratch / 'lake'}"),
                *(f"--workers={PRODUCTS}", f"--chunk-concurrency={POOL}"),
            ],
            env={**os.environ, "HEADRACE_HOME": str(home)},
            stdout=subprocess.PIPE,
            text=True,
            timeout=900,
            check=False,
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _row(arrivals: list[Arrival], summary: dict[str, Any]) -> dict[str, Any]:
    last: dict[str, float] = defaultdict(float)
    for arrival in arrivals:
        if arrival.subject.product:
            last[arrival.subject.product] = arrival.arrived_s
    begin, end = arrivals[0].arrived_s + WARM_UP_S, min(last.values())
    wanted = sum(begin <= each.arrived_s < end for each in arrivals)
    return {
        "products": PRODUCTS,
        "keys": KEYS,
        "quota": summary["quota"]["rates"],
        "all wanting s": round(end - begin, 1),
        "requests": wanted,
        "requests/s": round(wanted / (end - begin), 2),
        "of the quota": round(wanted / (RATE * KEYS * (end - begin)), 4),
        "429": sum(each.status == 429 for each in arrivals),
        "of the quota, whole run": summary["quota"]["used_share"],
        "requests in all": summary["requests"],
    }
