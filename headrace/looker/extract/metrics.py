"""The metrics of an extraction beside those of its requests: items, and what is missing."""

from __future__ import annotations

from headrace.looker.extract.report import ExtractSummary
from headrace.metrics import catalogue as names
from headrace.metrics.meter import Meter
from headrace.metrics.requests import RequestMetrics
from headrace.run.progress import RunProgress


class ExtractMetrics:
    """Feeds a meter from one extraction; a content type is what a product is elsewhere.

    Args:
        meter: takes the metrics.
        source: host of the Looker.
        requests: the metrics of the run's client.
        progress: sampled for the items that came.
    """

    def __init__(
        self, meter: Meter, *, source: str, requests: RequestMetrics, progress: RunProgress
    ) -> None:
        self._meter = meter
        self._source = source
        self._requests = requests
        self._progress = progress
        meter.sampled(self._sample)

    def ended(self, summary: ExtractSummary) -> None:
        """Take what only the end knows."""
        self._requests.ended("stopped" if summary.stopped else summary.status.value)
        for receipt in summary.types:
            self._meter.set(
                names.MISSING, len(receipt.failures), source=self._source, product=receipt.type
            )

    def _sample(self) -> None:
        for type_, entry in list(self._progress.parts.items()):
            self._meter.count_to(names.ROWS, entry.done, source=self._source, product=type_)
