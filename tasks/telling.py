"""What happens in a run, told to whoever listens: Prefect's events, the log, the figures."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prefect.runtime import flow_run

from headrace.metrics import publishing
from headrace.metrics.opening import PATIENCE_S
from headrace.pull.figures import PullFigures
from headrace.pull.receipts import ProductReceipt, Status, Summary
from headrace.pull.wording import one_line
from tasks.events import emit
from tasks.observers import Observer, observing

if TYPE_CHECKING:
    from tasks.runs import Run

log = logging.getLogger(__name__)

#: How long the last figures may take once the run was asked to end.
_INTERRUPTED_PATIENCE_S = 1.0


def tell(name: str, facts: Mapping[str, object]) -> None:
    """An event of a job: to Prefect, and as a line."""
    emit(name, facts)
    log_event(name, facts)


def log_event(name: str, facts: Mapping[str, object]) -> None:
    """The line of an event that the library does not log itself."""
    extra = {"event": name, "facts": facts}
    if name == "committed":
        log.info("committed, complete up to trade %s", facts.get("watermark"), extra=extra)
    elif name == "gap":
        log.info("no trade has an id from %(from_id)s to %(to_id)s", facts, extra=extra)
    elif name == "lease-lost":
        log.warning("the lease is lost: %s", facts.get("reason"), extra=extra)


def log_product(receipt: ProductReceipt) -> None:
    """The line of a product that ended."""
    facts = {"status": receipt.status.value, "rows": receipt.new_rows, "pages": receipt.pages}
    level = logging.INFO if receipt.status in _QUIET else logging.WARNING
    text = f"{receipt.status.value.replace('_', ' ')}: {receipt.new_rows:,} new trades"
    if receipt.error:
        text += f" ({receipt.error})"
    log.log(level, "%s", text, extra={"event": "product-ended", "facts": facts})


def log_run(summary: Summary) -> None:
    """The line of a run that ended."""
    facts = {
        "run": summary.run,
        "status": "stopped" if summary.stopped else summary.status.value,
        "requests": summary.requests,
        "throttled": summary.throttled,
        "retries": summary.retries,
        "elapsed_s": round(summary.elapsed_s, 3),
        "rows": sum(receipt.new_rows for receipt in summary.products),
    }
    level = logging.INFO if summary.status in _QUIET else logging.WARNING
    log.log(level, "%s", one_line(summary), extra={"event": "run-ended", "facts": facts})


_QUIET = {Status.DONE, Status.RUNNING_ELSEWHERE}


@contextmanager
def measured(run: Run) -> Iterator[None]:
    """Publish the figures of a run for a `with` block, where the settings say so."""
    with publishing(run.settings, patience=lambda: _patience_s(run)) as meter:
        if meter is None:
            yield
            return
        figures = PullFigures(
            meter,
            source=run.gate.config.name,
            flow=flow_run.flow_name or run.request.planner,  # an audit fetches, too
            stats=run.client.stats,
            lake=run.lake,
            new_rows=lambda: {product: job.new_rows for product, job in list(run.jobs.items())},
            per_s=run.pages_per_s,
            clock=run.progress.clock,
        )
        run.listeners.append(figures.told)
        run.gate.on_breaker_change(figures.breaker_changed)
        with observing(_OfOneRun(run.id, figures)):
            yield


def _patience_s(run: Run) -> float:
    return _INTERRUPTED_PATIENCE_S if run.stop.is_set() else PATIENCE_S


class _OfOneRun(Observer):
    """Hands the summary of one run to its figures."""

    def __init__(self, run_id: str, figures: PullFigures) -> None:
        self._run_id = run_id
        self._figures = figures

    def started(self, run: Run) -> None:
        """Nothing is known at the start."""

    def ended(self, summary: Summary) -> None:
        """Take what only the end knows."""
        if summary.run == self._run_id:
            self._figures.ended(summary)
