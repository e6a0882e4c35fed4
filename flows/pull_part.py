"""A part of a spread backfill or ingest: what `--spread` starts on whatever runs deployments.

    pull-part              a set of products, or a range of ids of one
    └── product            as in a backfill
        └── chunk

It works without the run that started it, and leaves it a report.
"""

from __future__ import annotations

from prefect.client.schemas import State

from headrace.pull.report import Summary
from headrace.pull.spread import PartRequest
from tasks.pipeline import pipeline
from tasks.pull import pull_products
from tasks.pull_report import conclude
from tasks.pull_run import open_run
from tasks.spread import living_part


@pipeline("pull-part", PartRequest)
def pull_part(request: PartRequest) -> State[Summary]:
    """Fetch one part of a spread run, for the run that started it."""
    with open_run(request) as run, living_part(run):
        return conclude(run, pull_products(run))
