"""Metrics to CloudWatch, a whole publication in one request.

`PutMetricData` takes 1,000 data of together 1 MB
(https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricData.html). Series
with a product are also added up without it, since CloudWatch never adds up over dimensions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from headrace.metrics.catalogue import PRODUCT, Kind
from headrace.metrics.exceptions import SinkError
from headrace.metrics.meter import Distribution, Point, without_product

_MOST_DATA = 1_000
_CONFIG = Config(
    connect_timeout=2, read_timeout=4, retries={"total_max_attempts": 2, "mode": "standard"}
)

Client = Any  #: boto3's CloudWatch client; its stubs are not among our requirements


def make_client(region: str | None = None) -> Client:
    """A client that gives up soon.

    Raises:
        SinkError: there is no region or another part of boto3's configuration is amiss.
    """
    try:
        # A session of our own, since boto3's shared one may not be used by two threads at once.
        session: Any = boto3.session.Session(region_name=region)
        return session.client("cloudwatch", config=_CONFIG)
    except (BotoCoreError, ValueError) as error:
        raise SinkError(
            "CloudWatch", str(error), hint="Give a region and credentials (AWS_REGION, AWS_PROFILE)"
        ) from error


class CloudWatch:
    """`Sink` that puts metrics under a namespace.

    Args:
        namespace: as it shows in CloudWatch.
        client: made when first needed, since boto3 may look for credentials for seconds.
        wall: Unix seconds, from which ages are counted.
    """

    interval_s = 60.0

    def __init__(
        self, namespace: str, *, client: Client | None = None, wall: Callable[[], float] = time.time
    ) -> None:
        self.namespace = namespace
        self._client = client
        self._wall = wall

    def publish(self, points: Sequence[Point], at: float) -> None:
        """See `Sink.publish`."""
        self._client = self._client or make_client()
        data = list(self._data(points, datetime.fromtimestamp(at, UTC)))
        try:
            for begin in range(0, len(data), _MOST_DATA):
                self._client.put_metric_data(
                    Namespace=self.namespace, MetricData=data[begin : begin + _MOST_DATA]
                )
        except (BotoCoreError, ClientError) as error:
            raise SinkError(
                f"CloudWatch namespace {self.namespace}",
                str(error),
                hint="Allow cloudwatch:PutMetricData to these credentials",
            ) from error

    def _data(self, points: Sequence[Point], at: datetime) -> Iterator[dict[str, Any]]:
        for point in (*points, *without_product(points)):
            if not _says_nothing(point):
                yield {
                    "MetricName": point.metric.cloud_name,
                    "Dimensions": [
                        {"Name": name.capitalize(), "Value": value} for name, value in point.labels
                    ],
                    "Timestamp": at,
                    "Unit": point.metric.unit,
                    **self._value(point),
                }

    def _value(self, point: Point) -> dict[str, Any]:
        value = point.value
        if isinstance(value, Distribution):
            return {
                "StatisticValues": {
                    "SampleCount": float(value.count),
                    "Sum": value.total,
                    "Minimum": value.least,
                    "Maximum": value.most,
                }
            }
        if point.metric.kind is Kind.MOMENT:
            value = max(0.0, self._wall() - value)
        return {"Value": 100.0 * value if point.metric.unit == "Percent" else float(value)}


def _says_nothing(point: Point) -> bool:
    """No observation, or a product that did not move: every datum costs, and none is needed.

    A zero over all products is published: without it an alarm sees missing data.
    """
    if isinstance(point.value, Distribution):
        return point.value.count == 0
    of_product = any(name == PRODUCT for name, _ in point.labels)
    return of_product and point.metric.kind is Kind.COUNTER and point.value == 0
