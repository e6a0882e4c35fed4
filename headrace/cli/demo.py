"""`headrace demo`: a whole backfill against a simulated exchange, with its troubles.

Five products on one quota: a large one, a sparse one, one under a page, one without trades and one
that the exchange does not know. The last makes the run partial in its own terms, as it should; the
demo succeeds if everything else is there. Run it again, and nothing is fetched twice.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, cast

import pyarrow.dataset as ds
import typer

from headrace.cli.display import Display
from headrace.cli.exit_codes import Exit
from headrace.cli.running import report_of
from headrace.cli.server import bounded_exit
from headrace.pull.report import Summary
from headrace.run.report import Status
from headrace.sim import SimulatedExchangeProcess, TokenBucket

TAPE = (
    "BTC-USD:500000",
    "ETH-USD:120000",
    "DOGE-USD:30000,density=0.3",
    "NEW-USD:734",
    "EMPTY-USD:0",
)
TAPE_ENDS = datetime(2026, 1, 1, tzinfo=UTC)
UNKNOWN = "GONE-USD"
PRODUCTS = ("BTC-USD", "DOGE-USD", "NEW-USD", "EMPTY-USD", UNKNOWN)
RATE = "15/s"
FAULTS = (
    'respond,status=429,body={"message":"Public rate limit exceeded"},probability=0.005',
    "respond,status=503,probability=0.01",
)


def demo(
    lake: Annotated[Path, typer.Option(help="Folder of the demo's own lake.")] = Path(
        "data/demo-lake"
    ),
) -> None:
    """Run a backfill against a simulated exchange that throttles and fails now and then."""
    display = Display()
    display.say(
        f"A simulated exchange with {len(PRODUCTS) - 1} products, a quota of {RATE}, realistic "
        f"latency, and now and then a 429 or a 503; asked for {', '.join(PRODUCTS)}."
    )
    with SimulatedExchangeProcess(
        *TAPE,
        seed=7,
        latency="lognormal:p50=0.3,p95=1.2",
        now=TAPE_ENDS,
        limits=[TokenBucket(rate_per_s=15, burst=15)],
        faults=FAULTS,
    ) as exchange:
        summary = cast("Summary", report_of("backfill", _parameters(exchange.url, lake), display))
    display.show(summary)
    if summary.stopped:
        display.say("Run it again: it goes on from here.")
        bounded_exit(Exit.INTERRUPTED)
    good = _as_expected(summary)
    if good:
        display.say(_closing(summary, lake))
    bounded_exit(Exit.DONE if good else Exit.FAILED)


def _parameters(url: str, lake: Path) -> dict[str, Any]:
    return {
        "products": list(PRODUCTS),
        "workers": 5,
        "chunk_concurrency": 12,
        "lake": str(lake),
        "base_url": url,
        "rate": RATE,
    }


def _as_expected(summary: Summary) -> bool:
    """Whether every product but the unknown one is complete."""
    return all(
        (receipt.status is Status.DONE) == (receipt.product != UNKNOWN)
        for receipt in summary.products
    )


def _closing(summary: Summary, lake: Path) -> str:
    stored = lake / "raw" / "trades" / "exchange=coinbase" / "product=BTC-USD"
    rows = ds.dataset(stored, format="parquet").count_rows()
    query = f"pyarrow.dataset.dataset('{stored}').count_rows()"
    return (
        f"\n{UNKNOWN} is not known to the exchange, so the run calls itself partial and names it; "
        f"everything else is complete.\nLook at the run: {summary.ui_url} (headrace up keeps the "
        f"UI there)\nAsk the lake: {query}  ->  {rows:,}\n"
        "Run it again: not one trade is fetched twice."
    )
