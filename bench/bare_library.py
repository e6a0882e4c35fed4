"""The library alone, without Prefect: client, walk, raw lake.

Usage: python -m bench.bare_library URL PRODUCT NEWEST FOLDER
"""

from __future__ import annotations

import json
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from headrace.coverage import IntervalSet
from headrace.exchange.client import ExchangeClient
from headrace.exchange.planning import Chunk, Sizing, plan_chunks
from headrace.exchange.proof import Known
from headrace.exchange.walk import walk
from headrace.lake import open_lake
from headrace.quota import QuotaConfig, open_gate
from headrace.wire.transport import Transport

THREADS = 5


def main(url: str, product: str, newest: int, folder: Path) -> None:
    """Walk every chunk on as many threads as the flow gives one product, and store its part."""
    lake = open_lake(str(folder / "lake")).raw("coinbase")
    config = QuotaConfig(name="bench", rates=())
    with open_gate(folder / "quota", config) as gate, Transport(url) as transport:
        client = ExchangeClient(transport, gate)

        def fetch(chunk: Chunk) -> None:
            walked = walk(client, product, chunk.span, Known(1, newest))
            if walked.error:
                raise walked.error
            lake.write(
                product,
                walked.lo,
                walked.hi,
                walked.trades,
                source="localhost",
                fetched_at=datetime.now(UTC),
            )

        # As a flow sizes them once it has measured that answers take a millisecond: whole cells.
        sizing = Sizing(lake.grid.cell_pages, in_flight=THREADS, pool=THREADS, latency_s=0.001)
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(fetch, plan_chunks(IntervalSet.of((1, newest)), sizing)))
            lake.merge_due(product)


if __name__ == "__main__":
    began_cpu, began = time.process_time(), time.monotonic()
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
    print(
        json.dumps(
            {
                "cpu_s": round(time.process_time() - began_cpu, 2),
                "wall_s": round(time.monotonic() - began, 2),
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            }
        )
    )
