"""Backfill of trades from the simulated exchange, with its documented limit of 10 requests/s."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

from bench.peers.environments import SCRIPTS, python_of
from bench.peers.job import HEADRACE, CannotDo, Figures, Peer, Prefect
from bench.peers.measure import Used
from bench.peers.served import ServedJob
from headrace.sim import SimulatedExchangeProcess, TokenBucket

RATE, BURST = 10, 15
LATENCY = "lognormal:p50=0.25,p95=0.6"
SEED = 17
PRODUCTS = ("P0-USD", "P1-USD", "P2-USD")
PAGES, SHORT_PAGES, PAGE = 60, 15, 1000
#: What the exchange adds to each product between a kill and the second run.
GROWTH = 250

_SAME_STORE = "Rows go into an SQLite table with a primary key, one transaction a page"
PEERS = (
    Peer(
        "headrace",
        "`headrace backfill` with `--rate 10/s` and otherwise its defaults (3 products, 5 chunks "
        "each), on a Prefect server that is up.",
        packages=("prefect",),
    ),
    Peer(
        "plain script",
        "Ten threads, `requests` with urllib3's retries, the stock pyrate-limiter bucket at 10/s, "
        "a Parquet file per hundred pages. It needs the newest id as an argument.",
        packages=("pyrate-limiter", "pyarrow"),
        script="plain_script.py",
    ),
    Peer(
        "ccxt",
        "`coinbaseexchange.fetch_trades` by cursor, its own rate limiter (10/s, the default), "
        f"its own retries (`maxRetriesOnFailure`), the three products at once. {_SAME_STORE}; a "
        "second run goes on below the lowest id and above the highest.",
        environment="ccxt",
        packages=("ccxt",),
        script="ccxt_trades.py",
    ),
    Peer(
        "dlt",
        "A REST source with its header cursor, `incremental` on the id in descending order, "
        "parallelized resources, `merge` into DuckDB by primary key. dlt has no rate limiter; "
        "its client retries 429s with growing pauses.",
        environment="dlt",
        packages=("dlt", "duckdb"),
        script="dlt_trades.py",
    ),
    Peer(
        "cryptofeed",
        "`Coinbase.trades` from start to end, its own pause of 1/10 s, the three products at "
        f"once. Its pages hold 100 trades. {_SAME_STORE}; a second run starts at the newest time "
        "stored.",
        environment="cryptofeed",
        packages=("cryptofeed",),
        script="cryptofeed_trades.py",
        rounds=1,
    ),
    Peer(
        "freqtrade",
        "`freqtrade download-data --dl-trades` for `coinbaseexchange`, pointed by `ccxt_config`.",
        environment="freqtrade",
        packages=("freqtrade", "ccxt"),
        rounds=1,
    ),
)


class Trades(ServedJob):
    """See the module.

    Args:
        prefect: the server for our own command.
        short: fewer pages.
    """

    peers: Sequence[Peer] = PEERS

    def __init__(self, prefect: Prefect, *, short: bool) -> None:
        super().__init__(prefect)
        self._pages = SHORT_PAGES if short else PAGES
        requests = len(PRODUCTS) * self._pages
        self.about = (
            f"{len(PRODUCTS)} products of {self._pages * PAGE:,} trades, {requests} pages of "
            f"{PAGE:,}. The exchange allows {RATE} requests/s with bursts of {BURST} and answers "
            "after 0.25 s (P50) to 0.6 s (P95): no client can do it in less than "
            f"{(requests - BURST) / RATE:.1f} s. Between the kill and the second run each product "
            f"gains {GROWTH} trades."
        )

    def server(self) -> SimulatedExchangeProcess:
        """See `ServedJob`."""
        return SimulatedExchangeProcess(
            *(f"{product}:{self._pages * PAGE}" for product in PRODUCTS),
            seed=SEED,
            latency=LATENCY,
            limits=[TokenBucket(rate_per_s=RATE, burst=BURST)],
        )

    def environment(self, server: SimulatedExchangeProcess) -> Mapping[str, str]:  # noqa: ARG002
        """See `ServedJob`."""
        return {"RUNTIME__DLTHUB_TELEMETRY": "false"}

    def command(self, peer: Peer, scratch: Path, server: SimulatedExchangeProcess) -> list[str]:
        """See `ServedJob`."""
        return _command(peer, scratch, server)

    def before_second(self, server: SimulatedExchangeProcess) -> None:
        """See `ServedJob`."""
        for product in PRODUCTS:
            server.grow(product, GROWTH)

    def refused(self, peer: Peer, used: Used) -> None:
        """See `ServedJob`."""
        if peer.name == "freqtrade" and used.code:
            raise CannotDo(used.last_line.rpartition(" - ")[2])

    def lost(self, peer: Peer, scratch: Path, server: SimulatedExchangeProcess) -> Figures:
        """See `ServedJob`."""
        stored = {product: list(_ids(peer, scratch, product)) for product in PRODUCTS}
        missing = repeated = 0
        for product, ids in stored.items():
            served, distinct = set(range(1, server.newest_id(product) + 1)), set(ids)
            if not distinct <= served:
                raise RuntimeError(f"{peer.name} stored ids of {product} that were never served")
            missing += len(served - distinct)
            repeated += len(ids) - len(distinct)
        return {"missing": missing, "repeated": repeated}


def _command(peer: Peer, scratch: Path, sim: SimulatedExchangeProcess) -> list[str]:
    python = python_of(peer.environment)
    products, folder = ",".join(PRODUCTS), str(scratch)
    match peer.name:
        case "headrace":
            where = [f"--base-url={sim.url}", f"--lake={scratch / 'lake'}", f"--rate={RATE}/s"]
            return [python, *HEADRACE, "backfill", *PRODUCTS, *where, "--json"]
        case "plain script":
            newest = sim.newest_id(PRODUCTS[0])
            module = ["-m", "bench.plain_script", sim.url, products, str(newest), folder]
            return [python, *module, "10", str(RATE)]
        case "freqtrade":
            config = scratch / "config.json"
            (scratch / "user/data").mkdir(parents=True, exist_ok=True)
            config.write_text(json.dumps(_freqtrade(sim.url)))
            pairs = [product.replace("-", "/") for product in PRODUCTS]
            return [
                *(str(Path(python).with_name("freqtrade")), "download-data", "--dl-trades"),
                *("--config", str(config), "--userdir", str(scratch / "user"), "--days", "30"),
                *("--data-format-trades", "parquet", "--pairs", *pairs),
            ]
        case _:
            return [python, str(SCRIPTS / peer.script), sim.url, products, folder]


def _freqtrade(url: str) -> Mapping[str, Any]:
    """The least that freqtrade takes; the simulated exchange has no list of currencies."""
    pointed = {"has": {"fetchCurrencies": False}, "urls": {"api": {"public": url, "private": url}}}
    pricing = {"price_side": "same", "use_order_book": True, "order_book_top": 1}
    return {
        "exchange": {
            "name": "coinbaseexchange",
            "ccxt_config": pointed,
            "pair_whitelist": [product.replace("-", "/") for product in PRODUCTS],
        },
        "pairlists": [{"method": "StaticPairList"}],
        "stake_currency": "USD",
        "stake_amount": 10,
        "max_open_trades": 1,
        "dry_run": True,
        "entry_pricing": pricing,
        "exit_pricing": pricing,
    }


def _ids(peer: Peer, scratch: Path, product: str) -> Iterable[int]:
    """The ids that a peer has stored of a product, as often as it has stored them."""
    match peer.name:
        case "headrace" | "plain script":
            folder = scratch / f"lake/raw/trades/exchange=coinbase/product={product}"
            files = [*scratch.glob(f"{product}-*.parquet"), *folder.glob("part-*.parquet")]
            for file in files:
                yield from pq.read_table(file, columns=["trade_id"])["trade_id"].to_pylist()
        case "dlt":
            table = f"lake.{product.replace('-', '_').lower()}"
            with duckdb.connect(str(scratch / "trades.duckdb"), read_only=True) as database:
                yield from (
                    row[0] for row in database.sql(f"SELECT trade_id FROM {table}").fetchall()
                )
        case _:
            database = sqlite3.connect(scratch / "trades.sqlite")
            query = "SELECT trade_id FROM trades WHERE product = ?"
            yield from (row[0] for row in database.execute(query, [product]))
            database.close()
