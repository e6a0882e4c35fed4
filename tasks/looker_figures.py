"""The figures of an extraction, published for a `with` block where the settings say so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.looker.figures import LookerFigures
from headrace.metrics import publishing
from tasks.figures import OfOneRun, patience_of, request_figures
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
        figures = LookerFigures(
            meter,
            source=run.gate.config.name,
            requests=request_figures(meter, run, run.context.per_s, "looker"),
            progress=run.progress,
        )
        with observing(OfOneRun(run.id, figures.ended)):
            yield
