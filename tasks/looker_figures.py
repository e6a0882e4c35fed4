"""The figures of an extraction, published for a `with` block where the settings say so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prefect.runtime import flow_run

from headrace.looker.figures import LookerFigures
from headrace.metrics import publishing
from headrace.metrics.requests import RequestFigures
from tasks.figures import OfOneRun, patience_of
from tasks.observers import observing

if TYPE_CHECKING:
    from tasks.looker_runs import Extraction


@contextmanager
def measured_extraction(run: Extraction) -> Iterator[None]:
    """Publish the figures of an extraction from a Looker."""
    with publishing(run.settings, patience=patience_of(run.stop)) as meter:
        if meter is None:
            yield
            return
        source = run.gate.config.name
        requests = RequestFigures(
            meter,
            source=source,
            flow=flow_run.flow_name or "looker",
            stats=run.client.stats,
            per_s=run.context.per_s,
            clock=run.progress.clock,
        )
        figures = LookerFigures(meter, source=source, requests=requests, progress=run.progress)
        run.gate.on_breaker_change(figures.breaker_changed)
        with observing(OfOneRun(run.id, figures.ended)):
            yield
