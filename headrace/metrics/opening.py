"""From the text in a setting to the sink it means, and a meter that is published to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.metrics.exceptions import MetricsSettingError
from headrace.metrics.meter import Meter
from headrace.metrics.publisher import Publisher, Sink
from headrace.settings import Settings

#: What CloudWatch allows in a namespace; those of AWS itself begin with AWS/.
_NAMESPACE = re.compile(r"(?!AWS/)[A-Za-z0-9._/#-][A-Za-z0-9._/#: -]{0,254}")

#: How long the last metrics may take to be delivered.
PATIENCE_S = 5.0


def parse_sink(text: str) -> tuple[str, str]:
    """The kind of sink (`none`, `prometheus`, `cloudwatch`), and its file or namespace.

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
    raise MetricsSettingError(text, "no such place for metrics")


def open_sink(text: str, *, most_products: int) -> Sink | None:
    """The sink that a setting means, unused so far; None for nowhere.

    Raises:
        MetricsSettingError: it means none.
    """
    kind, where = parse_sink(text)
    if kind == "prometheus":
        from headrace.metrics.prometheus import PrometheusFile

        return PrometheusFile(Path(where).expanduser().absolute(), most_products=most_products)
    if kind == "cloudwatch":
        from headrace.metrics.cloudwatch import CloudWatch  # only here: boto3 is slow to load

        return CloudWatch(where)
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
