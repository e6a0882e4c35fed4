"""How a run ends: its summary, told to everybody, and the state that Prefect shows."""

from __future__ import annotations

import time
from collections.abc import Sequence

from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed, Failed, State

from headrace.pull.loglines import log_run
from headrace.pull.receipts import PlanReceipt, ProductReceipt, QuotaUse, Status, Summary, overall
from headrace.pull.wording import one_line
from tasks.artifacts import publish
from tasks.links import markdown_links
from tasks.observers import tell_ended
from tasks.runs import Run


def conclude(run: Run, receipts: Sequence[ProductReceipt]) -> State[Summary]:
    """Sum up, publish, and choose the state: Completed, Partial, Failed, Cancelled."""
    summary = _summary(run, products=tuple(receipts), status=overall(list(receipts)))
    publish(summary, markdown_links(run, summary))
    log_run(summary)
    tell_ended(summary)
    return _state(summary)


def conclude_plan(run: Run, plans: Sequence[PlanReceipt]) -> State[Summary]:
    """Sum up a dry run."""
    failed = [plan for plan in plans if plan.error]
    status = Status.DONE if not failed else Status.FAILED
    if failed and len(failed) < len(plans):
        status = Status.PARTIAL
    summary = _summary(run, plan=tuple(plans), status=status)
    tell_ended(summary)
    return _state(summary)


def _summary(
    run: Run,
    *,
    status: Status,
    products: tuple[ProductReceipt, ...] = (),
    plan: tuple[PlanReceipt, ...] = (),
) -> Summary:
    stats, elapsed_s = run.client.stats, time.monotonic() - run.progress.started
    per_s = run.pages_per_s
    used = round(stats.requests / (elapsed_s * per_s), 4) if per_s else None
    return Summary(
        run=run.id,
        status=status,
        ui_url=flow_run.ui_url or None,
        elapsed_s=elapsed_s,
        requests=stats.requests,
        throttled=stats.throttled,
        retries=stats.retries,
        quota=QuotaUse(run.gate.config.name, run.rates, used, per_s),
        products=products,
        pool_use=run.progress.pool_use,
        stopped=run.stop.is_set(),
        plan=plan,
    )


def _state(summary: Summary) -> State[Summary]:
    message = one_line(summary)
    if summary.stopped:
        return Cancelled(message=message, data=summary)
    if summary.status is Status.DONE:
        return Completed(message=message, data=summary)
    if summary.status is Status.RUNNING_ELSEWHERE:
        return Completed(name="AlreadyRunning", message=message, data=summary)
    return Failed(name=summary.status.value.title(), message=message, data=summary)
