"""Backfill: every trade of some products, from an exchange into a lake, exactly once.

    backfill
    └── product            one per product, `workers` at once: lease, plan, commit
        └── chunk          one per piece of the id grid, `chunk_concurrency` at once

Products are mapped on the outer pool; each maps its chunks on a pool of its own, in waves, and
commits what is complete every ten seconds. All requests share one quota.
"""

from __future__ import annotations

from prefect import flow
from prefect.states import State

from flows.parameters import (
    BaseUrl,
    ChunkConcurrency,
    DryRun,
    FromId,
    FullRefresh,
    Last,
    Location,
    OnlyFailed,
    PagesPerChunk,
    Products,
    Rate,
    Seconds,
    Since,
    ToId,
    Until,
    Workers,
)
from flows.pull_requests import pull_request
from headrace.pull.receipts import Summary
from tasks.pulling import plan_products, pull_products
from tasks.reporting import conclude, conclude_plan
from tasks.runs import flow_run_id, open_run


@flow(name="backfill", persist_result=False, log_prints=False)
def backfill(
    products: Products,
    from_id: FromId = 0,
    to_id: ToId = 0,
    since: Since = "",
    until: Until = "",
    last: Last = "",
    full_refresh: FullRefresh = False,
    dry_run: DryRun = False,
    only_failed: OnlyFailed = False,
    pages_per_chunk: PagesPerChunk = 0,
    workers: Workers = 3,
    chunk_concurrency: ChunkConcurrency = 5,
    lake: Location = "",
    base_url: BaseUrl = "",
    rate: Rate = "",
    outage_limit_s: Seconds = 1800.0,
) -> State[Summary]:
    """Fetch every trade of the products that is not in the lake yet.

    Args:
        products: Product ids as the exchange lists them.
        from_id: First trade id wanted; 0 means from the beginning.
        to_id: Last trade id wanted; 0 means up to the newest.
        since: First time wanted (ISO 8601, UTC unless it says otherwise); empty for no limit.
        until: Last time wanted; empty for no limit.
        last: Only this length of time up to now, such as 1h or 7d; empty for no limit.
        full_refresh: Fetch again what is stored already.
        dry_run: Plan only - pages, requests, time at the quota, bytes.
        only_failed: Only what the last run tried and did not get.
        pages_per_chunk: Pages of 1,000 trades that one chunk task walks; 0 chooses.
        workers: Products at once.
        chunk_concurrency: Chunks at once per product; 0 chooses by the measured latency.
        lake: A folder, s3://bucket/prefix or block:NAME; empty for the configured one.
        base_url: Address of the exchange or block:NAME; empty for the configured one.
        rate: What the exchange allows, such as 10/s or 10/s,100/m, or block:NAME; none lifts it.
        outage_limit_s: Seconds to wait for an exchange that is down before the run fails.
    """
    request = pull_request("backfill", locals())
    with open_run(flow_run_id(), request) as run:
        if request.dry_run:
            return conclude_plan(run, plan_products(run))
        return conclude(run, pull_products(run))


if __name__ == "__main__":
    from headrace.cli.main import run_command

    run_command("backfill")
