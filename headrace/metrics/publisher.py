"""The thread that hands metrics to a sink, now and then and at the end."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from headrace.metrics.meter import Meter, Point

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
                log.warning("%s (told once; it is tried again)", str(error) or repr(error))
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
