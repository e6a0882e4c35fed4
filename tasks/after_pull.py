"""What a pull does after its products, where it is asked to: a transform, a check, a page.

What these need is imported by the runs that are asked for them: it takes 0.07 s of CPU, as much as
fifteen products of which nothing is new.
"""

from __future__ import annotations

from headrace.checks.report import CheckReport
from headrace.unified.report import TransformReport
from tasks.pull_run import Run


def transform_pulled(run: Run) -> TransformReport | None:
    """The transform of the products of a pull; None if it did not ask.

    Never raises for what can go wrong: the report says it.
    """
    if not run.request.transform or run.stop.is_set():
        return None
    from tasks.transform import transform_after

    return transform_after(run)


def check_pulled(run: Run) -> CheckReport | None:
    """The check of what a pull stored; None if it did not ask.

    Never raises for what can go wrong: the report says it.
    """
    if not run.request.check or run.stop.is_set():
        return None
    from tasks.check import check_after

    return check_after(run)


def page_after(run: Run) -> None:
    """The page of the lake, if the pull was asked for it; see `tasks.lake_report.publish_page`."""
    if not run.request.report:
        return
    from tasks.lake_report import publish_page

    publish_page(run, run.lake.store)
