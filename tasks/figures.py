"""The figures of a pull, published for a `with` block where the settings say so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from prefect.runtime import flow_run

from headrace.metrics import publishing
from headrace.metrics.meter import Meter
from headrace.metrics.opening import PATIENCE_S
from headrace.metrics.requests import RequestFigures
from headrace.pull.figures import PullFigures
from headrace.stopping import StopEvent
from tasks.observers import Observer, observing

if TYPE_CHECKING:
    from tasks.looker_runs import Extraction
    from tasks.runs import Run

#: How long the last figures may take once the run was asked to end.
_INTERRUPTED_PATIENCE_S = 1.0


@contextmanager
def measured(run: Run) -> Iterator[None]:
    """Publish the figures of a pull."""
    with publishing(run.settings, patience=patience_of(run.stop)) as meter:
        if meter is None:
            yield
            return
        figures = PullFigures(
            meter,
            source=run.gate.config.name,
            # An audit fetches, too.
            requests=request_figures(meter, run, run.pages_per_s, run.request.planner),
            lake=run.lake,
            new_rows=lambda: {product: job.new_rows for product, job in list(run.jobs.items())},
        )
        run.listeners.append(figures.told)
        with observing(OfOneRun(run.id, figures.ended)):
            yield


def request_figures(
    meter: Meter, run: Run | Extraction, per_s: float | None, kind: str
) -> RequestFigures:
    """What every run that sends requests publishes of them, and of its breaker.

    Args:
        meter: takes the figures.
        run: whose they are.
        per_s: requests a second that its quota sustains; None for no limit.
        kind: of the run, where it is none of Prefect's flows.
    """
    requests = RequestFigures(
        meter,
        source=run.gate.config.name,
        flow=flow_run.flow_name or kind,
        stats=run.client.stats,
        per_s=per_s,
        clock=run.progress.clock,
    )
    run.gate.on_breaker_change(requests.breaker_changed)
    return requests


def patience_of(stop: StopEvent) -> Callable[[], float]:
    """How many seconds the last figures of a run may take, asked at its end."""
    return lambda: _INTERRUPTED_PATIENCE_S if stop.is_set() else PATIENCE_S


class OfOneRun(Observer):
    """Hands the summary of one run, of whatever kind, to its figures."""

    def __init__(self, run_id: str, ended: Callable[[Any], None]) -> None:
        self._run_id = run_id
        self._ended = ended

    def started(self, run: object) -> None:
        """Nothing is known at the start."""

    def ended(self, summary: Any) -> None:
        """Take what only the end knows."""
        if summary.run == self._run_id:
            self._ended(summary)
