"""Which content of a Looker does not run any more.

looker-validate
├── content validation   what Looker says itself
└── queries              some queries of looks and dashboards, `workers` at once, where asked
"""

from __future__ import annotations

from prefect.client.schemas import State

from headrace.looker.validate.report import ValidateReport
from headrace.looker.validate.request import ValidateRequest
from tasks.looker_validate import (
    conclude_validation,
    open_validation,
    run_queries,
    validated_content,
)
from tasks.pipeline import pipeline


@pipeline("looker-validate", ValidateRequest)
def looker_validate(request: ValidateRequest) -> State[ValidateReport]:
    """Find looks, dashboards and schedules whose queries do not run any more."""
    with open_validation(request) as run:
        return conclude_validation(run, validated_content(run), run_queries(run))


if __name__ == "__main__":
    from headrace.cli.entry import run_command

    run_command("looker", "validate")
