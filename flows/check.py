"""Check: are the trades of a lake complete between its ends, in order, plausible and fresh.

Names and rows are looked at product by product; nothing is written and the exchange is not asked.
"""

from __future__ import annotations

from prefect.client.schemas import State

from headrace.checks.report import CheckReport
from headrace.checks.request import CheckRequest
from tasks.check import check_products, conclude_check, open_check
from tasks.pipeline import pipeline


@pipeline("check", CheckRequest)
def check(request: CheckRequest) -> State[CheckReport]:
    """Hold the trades that are stored against bounds of quality."""
    with open_check(request) as checking:
        return conclude_check(checking, check_products(checking))


if __name__ == "__main__":
    from headrace.cli.entry import run_command

    run_command("check")
