"""How a pull ends: its summary."""

from __future__ import annotations

from collections.abc import Sequence

from prefect.states import State

from headrace.pull.receipts import PlanReceipt, ProductReceipt
from headrace.pull.report import Summary, overall
from headrace.run.report import Status
from tasks import kernel
from tasks.links import markdown_links
from tasks.runs import Run


def conclude(run: Run, receipts: Sequence[ProductReceipt]) -> State[Summary]:
    """Sum up what was pulled."""
    summary = _summary(run, products=tuple(receipts), status=overall(receipts))
    return kernel.conclude(run, summary, links=markdown_links(run, summary))


def conclude_plan(run: Run, plans: Sequence[PlanReceipt]) -> State[Summary]:
    """Sum up a dry run."""
    failed = [plan for plan in plans if plan.error]
    status = Status.DONE if not failed else Status.FAILED
    if failed and len(failed) < len(plans):
        status = Status.PARTIAL
    return kernel.conclude(run, _summary(run, plan=tuple(plans), status=status))


def _summary(
    run: Run,
    *,
    status: Status,
    products: tuple[ProductReceipt, ...] = (),
    plan: tuple[PlanReceipt, ...] = (),
) -> Summary:
    stats = run.client.stats
    return Summary(
        run=run.id,
        status=status,
        ui_url=kernel.ui_url(),
        elapsed_s=run.elapsed_s,
        requests=stats.requests,
        throttled=stats.throttled,
        retries=stats.retries,
        quota=run.quota_use(),
        products=products,
        pool_use=run.progress.pool_use,
        stopped=run.stop.is_set(),
        plan=plan,
    )
