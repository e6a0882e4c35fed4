"""The inner level: one task run per chunk."""

from __future__ import annotations

import logging

from prefect.states import Failed, State

from headrace.exchange.planning import Chunk, page_count
from headrace.logs import about
from headrace.pull.receipts import ChunkReceipt
from tasks.prefect_defaults import task
from tasks.runs import run_of

log = logging.getLogger(__name__)


@task(
    name="chunk",
    task_run_name="{product} {lo}-{hi}",
    description="Walk one chunk of the id grid and store it as a part of the lake.",
)
def fetch_chunk(run: str, product: str, lo: int, hi: int) -> ChunkReceipt | State[ChunkReceipt]:
    """Fetch every trade of [lo, hi]; a failure costs this chunk alone and is told, not raised."""
    with about(product=product, chunk=f"{lo}-{hi}"):
        receipt = run_of(run).jobs[product].fetch(Chunk(lo, hi, page_count(lo, hi)))
        if receipt.error:
            return Failed(message=receipt.error, data=receipt)
        facts = {"rows": receipt.rows, "pages": receipt.pages}
        log.info("stored", extra={"event": "chunk-stored", "facts": facts})
        return receipt
