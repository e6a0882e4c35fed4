"""Ingest: what is new of some products, from the watermark to the newest trade.

    ingest
    └── product            one per product, `workers` at once: lease, plan, commit
        └── chunk          one per piece of the id grid, `chunk_concurrency` at once

The same DAG as the backfill with another planner. It catches up after an outage of any length, may
run while a backfill of the same product does, and goes first at the quota.
"""

from __future__ import annotations

from prefect import flow
from prefect.states import State

from flows.parameters import (
    BaseUrl,
    ChunkConcurrency,
    DryRun,
    Location,
    PagesPerChunk,
    Products,
    Rate,
    Seconds,
    Workers,
)
from flows.pull_requests import pull_request
from headrace.pull.receipts import Summary
from tasks.pulling import plan_products, pull_products
from tasks.reporting import conclude, conclude_plan
from tasks.runs import flow_run_id, open_run


@flow(name="ingest", persist_result=False, log_prints=False)
def ingest(
    products: Products,
    dry_run: DryRun = False,
    pages_per_chunk: PagesPerChunk = 0,
    workers: Workers = 3,
    chunk_concurrency: ChunkConcurrency = 5,
    lake: Location = "",
    base_url: BaseUrl = "",
    rate: Rate = "",
    outage_limit_s: Seconds = 1800.0,
) -> State[Summary]:
    """Fetch what is new of the products since the last run.

    Args:
        products: Product ids as the exchange lists them.
        dry_run: Plan only - pages, requests, time at the quota, bytes.
        pages_per_chunk: Pages of 1,000 trades that one chunk task walks; 0 chooses.
        workers: Products at once.
        chunk_concurrency: Chunks at once per product; 0 chooses by the measured latency.
        lake: A folder, s3://bucket/prefix or block:NAME; empty for the configured one.
        base_url: Address of the exchange or block:NAME; empty for the configured one.
        rate: What the exchange allows, such as 10/s or 10/s,100/m, or block:NAME; none lifts it.
        outage_limit_s: Seconds to wait for an exchange that is down before the run fails.
    """
    request = pull_request("ingest", locals())
    with open_run(flow_run_id(), request) as run:
        if request.dry_run:
            return conclude_plan(run, plan_products(run))
        return conclude(run, pull_products(run))


if __name__ == "__main__":
    from headrace.cli.main import run_command

    run_command("ingest")
