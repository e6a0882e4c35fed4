"""Ingest: what is new of some products, from the watermark to the newest trade.

    ingest
    └── product            one per product, `workers` at once: lease, plan, commit
        └── chunk          one per piece of the id grid, `chunk_concurrency` at once

The same DAG as the backfill with another planner. It catches up after an outage of any length, may
run while a backfill of the same product does, and goes first at the quota.
"""

from __future__ import annotations

from prefect.client.schemas import State

from headrace.pull.report import Summary
from headrace.pull.request import IngestRequest
from tasks.after_pull import check_pulled, transform_pulled
from tasks.pipeline import pipeline
from tasks.pull import plan_products, pull_products
from tasks.pull_report import conclude, conclude_plan
from tasks.pull_run import open_run


@pipeline("ingest", IngestRequest)
def ingest(request: IngestRequest) -> State[Summary]:
    """Fetch what is new of the products since the last run."""
    with open_run(request) as run:
        if request.dry_run:
            return conclude_plan(run, plan_products(run))
        return conclude(run, pull_products(run), transform_pulled(run), check_pulled(run))


if __name__ == "__main__":
    from headrace.cli.entry import run_command

    run_command("ingest")
