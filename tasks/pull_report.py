"""How a pull ends: its summary, with links to its tasks, the lake and the documentation."""

from __future__ import annotations

from collections.abc import Sequence

from prefect.client.schemas import State
from prefect.utilities.urls import url_for

from headrace.checks.report import CheckReport
from headrace.lake.names import product_prefix
from headrace.pull.ledger import EXCHANGE
from headrace.pull.report import PlanReceipt, ProductReceipt, Summary, overall
from headrace.pull.spread import PartRequest
from headrace.run.report import Status
from headrace.settings import Settings
from headrace.unified.report import TransformReport
from tasks import kernel
from tasks.after_pull import page_after
from tasks.child_runs import leave_report
from tasks.pull_run import Run


def conclude(
    run: Run,
    receipts: Sequence[ProductReceipt],
    transform: TransformReport | None = None,
    check: CheckReport | None = None,
) -> State[Summary]:
    """Sum up what was pulled, and what was made and found of it if that was asked for.

    A part of a spread run leaves its summary to that run.
    """
    status = overall(receipts)
    if status.quiet and any(each and each.status is not Status.DONE for each in (transform, check)):
        status = Status.PARTIAL
    summary = _summary(
        run, products=tuple(receipts), status=status, transform=transform, check=check
    )
    if isinstance(run.request, PartRequest):
        leave_report(summary)
    else:
        page_after(run)
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
    transform: TransformReport | None = None,
    check: CheckReport | None = None,
) -> Summary:
    return Summary(
        run=run.id,
        status=status,
        ui_url=kernel.ui_url(),
        costs=run.costs(),
        products=products,
        pool_use=run.progress.pool_use,
        stopped=run.stop.is_set(),
        plan=plan,
        chosen=run.chosen.described(),
        transform=transform,
        check=check,
        parts=tuple(run.parts),
    )


#: What each kind of ending is explained in.
_PAGES = {
    Status.DONE: ("lake.md", "what lies in the lake"),
    Status.RUNNING_ELSEWHERE: ("leases.md", "who may write, and what happens to the dead"),
    Status.PARTIAL: ("audit.md", "finding and mending what is missing"),
    Status.FAILED: ("audit.md", "finding and mending what is missing"),
}


def markdown_links(run: Run, summary: Summary) -> str:
    """The closing section of the summary artifact."""
    lines = ["", "### Look further", ""]
    if summary.ui_url:
        lines.append(f"- [this run and its graph]({summary.ui_url})")
    lake = run.checkpoints.lake.rstrip("/")
    lines += [
        f"- {receipt.product}: {_task_run(run, receipt)}"
        f"`{_code(f'{lake}/{product_prefix(EXCHANGE, receipt.product)}')}`"
        for receipt in summary.products
    ]
    page, about = _PAGES[summary.status]
    lines.append(f"- {about}: {_page(run.settings, page)}")
    return "\n".join(lines)


def _task_run(run: Run, receipt: ProductReceipt) -> str:
    """A link to the product's task run, where there is one and a UI to show it."""
    task_run = run.task_runs.get(receipt.product)
    url = url_for("task-run", obj_id=task_run) if task_run else None
    return f"[its task]({url}), in " if url else ""


def _page(settings: Settings, page: str) -> str:
    if settings.docs_url:
        return f"[{page}]({settings.docs_url.rstrip('/')}/{page})"
    return f"`docs/{page}`"


def _code(location: str) -> str:
    """A place as it stands in a code span: no backtick can end it early."""
    return " ".join(location.replace("`", "'").split())
