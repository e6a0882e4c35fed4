"""From the text of a setting to a sink, and the thread that publishes a meter to it."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from headrace.extras import import_with
from headrace.metrics.exceptions import MetricsSettingError
from headrace.metrics.meter import Meter, Point
from headrace.settings import Settings

log = logging.getLogger(__name__)

#: Publications kept for a sink that does not take them; the oldest go first.
_MOST_PENDING = 30

#: A period is published when it is over, not a clock tick before.
_CLOCK_TICK_S = 0.01


class Sink(Protocol):
    """Where metrics go."""

    #: Seconds between publications.
    interval_s: float

    def publish(self, points: Sequence[Point], at: float) -> None:
        """Hand over all of a publication or raise.

        Args:
            points: every series.
            at: Unix seconds at which the period they cover began.

        Raises:
            SinkError: it was not taken; it is offered again with the next one.
        """


class Publisher:
    """Publishes a meter's metrics to a sink from a thread of its own.

    Periods begin at multiples of the interval, so that a CloudWatch minute holds a minute.

    Args:
        wall: Unix seconds.
    """

    def __init__(self, meter: Meter, sink: Sink, *, wall: Callable[[], float] = time.time) -> None:
        self._meter = meter
        self._sink = sink
        self._wall = wall
        self._pending: deque[tuple[float, list[Point]]] = deque(maxlen=_MOST_PENDING)
        self._failing = False
        self._period = self._began()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-metrics", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self, patience_s: float) -> None:
        """Publish what is left, and wait for that no longer than `patience_s`."""
        self._over.set()
        self._thread.join(patience_s)
        if self._thread.is_alive():
            log.warning("the last metrics are not delivered within %g s and are lost", patience_s)

    def publish(self) -> None:
        """Take the metrics and offer them, with what was not taken before. Never raises."""
        self._try(self._meter.sample)
        at, self._period = self._period, self._began()
        self._pending.append((at, self._meter.take()))
        self._try(self._offer)

    def _offer(self) -> None:
        while self._pending:
            at, points = self._pending[0]
            self._sink.publish(points, at)
            self._pending.popleft()
        self._failing = False

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - no trouble with metrics may end a run
            if not self._failing:
                log.warning("%s (logged once; it is tried again)", str(error) or repr(error))
            self._failing = True

    def _began(self) -> float:
        """When the period began that is under way."""
        return self._wall() // self._sink.interval_s * self._sink.interval_s

    def _run(self) -> None:
        self.publish()
        while not self._over.wait(self._to_next()):
            self.publish()
        self.publish()

    def _to_next(self) -> float:
        interval_s = self._sink.interval_s
        return interval_s - self._wall() % interval_s + _CLOCK_TICK_S


#: What CloudWatch allows in a namespace; those of AWS itself begin with AWS/.
_NAMESPACE = re.compile(r"(?!AWS/)[A-Za-z0-9._/#-][A-Za-z0-9._/#: -]{0,254}")

_COLLECTOR = re.compile(r"https?://[^\s/@?#]+(/[^\s?#]*)?")

#: How long the last metrics may take to be delivered.
PATIENCE_S = 5.0


def parse_sink(text: str) -> tuple[str, str]:
    """The kind of sink (`none`, `prometheus`, `cloudwatch`, `otlp`), and its file, namespace or
    address.

    Raises:
        MetricsSettingError: it means none.
    """
    kind, _, where = text.strip().partition(":")
    if kind in ("", "none") and not where:
        return "none", ""
    if kind == "prometheus":
        if not where.endswith(".prom"):
            raise MetricsSettingError(text, "the node exporter reads files that end with .prom")
        return kind, where
    if kind == "cloudwatch":
        if not _NAMESPACE.fullmatch(where):
            raise MetricsSettingError(text, "not a namespace that CloudWatch takes")
        return kind, where
    if kind == "otlp":
        if not _COLLECTOR.fullmatch(where):
            raise MetricsSettingError(text, "a collector's address is http://HOST:4318 or https")
        return kind, where
    raise MetricsSettingError(text, "no such place for metrics")


def open_sink(text: str, *, most_products: int) -> Sink | None:
    """The sink that a setting means, unused so far; None for nowhere.

    Raises:
        MetricsSettingError: it means none.
        ExtraMissing: its client is not installed.
    """
    kind, where = parse_sink(text)
    if kind == "prometheus":
        from headrace.metrics.prometheus import PrometheusFile

        return PrometheusFile(Path(where).expanduser().absolute(), most_products=most_products)
    if kind == "cloudwatch":
        from headrace.metrics.cloudwatch import CloudWatch  # only here: boto3 is slow to load

        return CloudWatch(where)
    if kind == "otlp":
        sink: Sink = import_with("otel", "headrace.metrics.otlp").OtlpSink(where)
        return sink
    return None


@contextmanager
def publishing(
    settings: Settings, *, patience: Callable[[], float] = lambda: PATIENCE_S
) -> Iterator[Meter | None]:
    """A meter that is published as the settings say, for a `with` block; None for nowhere.

    Args:
        settings: say where metrics go.
        patience: asked at the end how many seconds the last of them may take.

    Raises:
        MetricsSettingError: the setting cannot be used; nothing was started.
    """
    sink = open_sink(settings.metrics, most_products=settings.metrics_products)
    if sink is None:
        yield None
        return
    meter = Meter(most_products=settings.metrics_products)
    publisher = Publisher(meter, sink)
    publisher.start()
    try:
        yield meter
    finally:
        publisher.close(patience())
