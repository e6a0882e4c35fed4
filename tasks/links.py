"""Where to look further, at the end of a run's summary: its tasks, the lake, the explanations."""

from __future__ import annotations

from prefect.utilities.urls import url_for

from headrace.lake.names import product_prefix
from headrace.pull.receipts import ProductReceipt
from headrace.pull.report import Summary
from headrace.pull.sources import EXCHANGE
from headrace.run.report import Status
from headrace.settings import Settings
from tasks.runs import Run

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
