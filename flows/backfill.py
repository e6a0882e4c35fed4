"""Backfill: every trade of some products, from an exchange into a lake, exactly once.

    backfill
    └── product            one per product, `workers` at once: lease, plan, commit
        └── chunk          one per piece of the id grid, `chunk_concurrency` at once

Products are mapped on the outer pool; each maps its chunks on a pool of its own, in waves, and
commits what is complete every ten seconds. All requests share one quota.
"""

from __future__ import annotations

from prefect.client.schemas import State

from headrace.pull.report import Summary
from headrace.pull.request import PullRequest
from tasks.after_pull import check_pulled, transform_pulled
from tasks.pipeline import pipeline
from tasks.pull import plan_products, pull_products
from tasks.pull_report import conclude, conclude_plan
from tasks.pull_run import open_run


@pipeline("backfill", PullRequest)
def backfill(request: PullRequest) -> State[Summary]:
    """Fetch every trade of the products that is not in the lake yet."""
    with open_run(request) as run:
        if request.dry_run:
            return conclude_plan(run, plan_products(run))
        return conclude(run, pull_products(run), transform_pulled(run), check_pulled(run))


if __name__ == "__main__":
    from headrace.cli.entry import run_command

    run_command("backfill")
