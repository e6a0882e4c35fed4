"""Transform: from the raw layer of a lake to its unified table.

    transform
    ├── take               one per product, `workers` at once: convert what is new or has changed
    └── compact            one per product, `workers` at once: merge small files

Rows and what was taken are committed together; the changes of many products share a commit.
"""

from __future__ import annotations

from prefect.client.schemas import State

from headrace.unified.report import TransformReport
from headrace.unified.request import TransformRequest
from tasks.pipeline import pipeline
from tasks.transform import compact_products, conclude_transform, take_products
from tasks.transform_run import open_transform


@pipeline("transform", TransformRequest)
def transform(request: TransformRequest) -> State[TransformReport]:
    """Bring the unified table of a lake up to date with its raw layer."""
    with open_transform(request) as run:
        if not request.compact_only:
            take_products(run)
        compact_products(run)
        return conclude_transform(run)


if __name__ == "__main__":
    from headrace.cli.entry import run_command

    run_command("transform")
