"""CloudWatch as moto answers for it: metrics arrive in whole minutes, alarms are there and look at
them, and a CloudWatch that is away costs a run nothing."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.metrics import Distribution, Meter, SinkError, publishing
from headrace.metrics.alarms import Thresholds, put_alarms
from headrace.metrics.catalogue import (
    BREAKER_OPENS,
    ERRORS,
    NEWEST,
    QUOTA_USED,
    REQUESTS,
    RESPONSE,
    THROTTLED,
)
from headrace.metrics.cloudwatch import CloudWatch
from headrace.settings import Settings
from tests.services_fixtures import ACCESS_KEY, SECRET_KEY, free_port, moto_url

__all__ = ["moto_url"]

pytestmark = pytest.mark.services

SOURCE = "api.example.com"


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch, moto_url: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_CLOUDWATCH", moto_url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def cloud(aws: None) -> Any:
    return boto3.client("cloudwatch")


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> str:
    return f"headrace/{request.node.name}"


def statistic(cloud: Any, namespace: str, name: str, what: str, **dimensions: str) -> list[float]:
    now = datetime.now(UTC)
    answer = cloud.get_metric_statistics(
        Namespace=namespace,
        MetricName=name,
        Dimensions=[{"Name": key, "Value": value} for key, value in dimensions.items()],
        StartTime=now - timedelta(minutes=10),
        EndTime=now + timedelta(minutes=2),
        Period=60,
        Statistics=[what],
    )
    points = sorted(answer["Datapoints"], key=lambda point: point["Timestamp"])
    return [point[what] for point in points]


def test_metrics_arrive_with_their_units_and_totals_over_products(
    cloud: Any, namespace: str
) -> None:
    meter, took = Meter(most_products=1), Distribution()
    for seconds in (1.0, 2.0, 6.0):
        took.observe(seconds)
    for product, requests in (("BTC-USD", 5), ("ETH-USD", 3), ("LTC-USD", 2)):
        meter.count(REQUESTS, requests, source=SOURCE, product=product)
        meter.set(NEWEST, time.time() - 100 * requests, source=SOURCE, product=product)
    meter.count(ERRORS, 1, source=SOURCE)
    meter.count(BREAKER_OPENS, 0, source=SOURCE)
    meter.observe(RESPONSE, took, source=SOURCE)
    meter.set(QUOTA_USED, 0.5, source=SOURCE, flow="ingest")
    CloudWatch(namespace).publish(meter.take(), time.time() // 60 * 60)

    def seen(name: str, what: str, **dimensions: str) -> list[float]:
        return statistic(cloud, namespace, name, what, **dimensions)

    # moto adds up over the dimensions that are left open, CloudWatch does not: the products' 10
    # and the total's 10 are 20 here. The unit tests look at each datum.
    assert seen("Requests", "Sum", Source=SOURCE) == [20.0]
    assert seen("Requests", "Sum", Source=SOURCE, Product="BTC-USD") == [5.0]
    assert seen("Requests", "Sum", Source=SOURCE, Product="_other") == [5.0]
    assert seen("BreakerOpens", "Sum", Source=SOURCE) == [0.0]
    assert seen("ResponseTime", "Average", Source=SOURCE) == [3.0]
    assert seen("ResponseTime", "Maximum", Source=SOURCE) == [6.0]
    assert seen("QuotaUse", "Average", Source=SOURCE, Flow="ingest") == [50.0]
    [age] = seen("DataAge", "Maximum", Source=SOURCE)
    assert 500 <= age < 530
    units = {each["MetricName"] for each in cloud.list_metrics(Namespace=namespace)["Metrics"]}
    assert units == {
        "Requests", "Errors", "BreakerOpens", "ResponseTime", "QuotaUse", "DataAge",
    }  # fmt: skip


def test_a_run_of_seconds_is_published_whole(cloud: Any, namespace: str) -> None:
    settings = Settings(metrics=f"cloudwatch:{namespace}")
    with publishing(settings) as meter:
        assert meter is not None
        meter.count(THROTTLED, 4, source=SOURCE)
        meter.count(THROTTLED, 3, source=SOURCE)

    assert sum(statistic(cloud, namespace, "Throttled", "Sum", Source=SOURCE)) == 7.0


def test_a_cloudwatch_that_is_away_neither_breaks_nor_holds_up_a_run(
    monkeypatch: pytest.MonkeyPatch, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_CLOUDWATCH", f"http://127.0.0.1:{free_port()}")
    began = time.monotonic()
    with publishing(Settings(metrics=f"cloudwatch:{namespace}"), patience=lambda: 2.0) as meter:
        assert meter is not None
        meter.count(THROTTLED, 1, source=SOURCE)

    assert time.monotonic() - began < 6
    assert namespace in caplog.text


def test_missing_credentials_are_named(monkeypatch: pytest.MonkeyPatch, namespace: str) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    meter = Meter()
    meter.count(THROTTLED, 1, source=SOURCE)

    with pytest.raises(SinkError, match="cloudwatch:PutMetricData"):
        CloudWatch(namespace).publish(meter.take(), 0.0)


def test_the_default_alarms_are_the_documented_ones(cloud: Any, namespace: str) -> None:
    names = put_alarms(cloud, namespace, SOURCE, Thresholds(), actions=[])
    put_alarms(cloud, namespace, SOURCE, Thresholds(), actions=[])  # a second time changes nothing

    found = {
        alarm["AlarmName"].rpartition(" ")[2]: alarm
        for alarm in cloud.describe_alarms(AlarmNames=names)["MetricAlarms"]
    }
    limits = {name: alarm["Threshold"] for name, alarm in found.items()}
    assert limits == {"ResponseTime": 3, "ErrorRate": 10, "Throttles": 10, "BreakerOpens": 0}
    assert {alarm["ComparisonOperator"] for alarm in found.values()} == {"GreaterThanThreshold"}
    throttles = found["Throttles"]
    assert (throttles["Statistic"], throttles["Period"]) == ("Sum", 60)
    parts = {part["Id"]: part for part in found["ErrorRate"]["Metrics"]}
    assert parts["rate"]["Expression"] == "IF(requests > 0, 100 * errors / requests, 0)"
    for alarm in found.values():
        looked_at = [alarm] if "MetricName" in alarm else [
            part["MetricStat"]["Metric"] for part in alarm["Metrics"] if "MetricStat" in part
        ]  # fmt: skip
        for one in looked_at:
            assert one["Namespace"] == namespace
            assert one["Dimensions"] == [{"Name": "Source", "Value": SOURCE}]


def test_alarms_look_at_figures_that_are_published(cloud: Any, namespace: str) -> None:
    """Same names, same dimensions: an alarm on a metric that is not published never rings."""
    meter = Meter()
    for metric in (ERRORS, THROTTLED, BREAKER_OPENS):
        meter.count(metric, 1, source=SOURCE)
    meter.count(REQUESTS, 1, source=SOURCE, product="BTC-USD")
    meter.set(NEWEST, time.time(), source=SOURCE, product="BTC-USD")
    took = Distribution()
    took.observe(1.0)
    meter.observe(RESPONSE, took, source=SOURCE)
    CloudWatch(namespace).publish(meter.take(), time.time())
    published = {
        (each["MetricName"], *((d["Name"], d["Value"]) for d in each["Dimensions"]))
        for each in cloud.list_metrics(Namespace=namespace)["Metrics"]
    }

    names = put_alarms(cloud, namespace, SOURCE, Thresholds(data_age_s=3600), actions=[])
    found = cloud.describe_alarms(AlarmNames=names)["MetricAlarms"]
    assert sorted(alarm["AlarmName"] for alarm in found) == sorted(names)
    assert len(names) > 3
    for alarm in found:
        stats = [part["MetricStat"]["Metric"] for part in alarm.get("Metrics", ())
                 if "MetricStat" in part] or [alarm]  # fmt: skip
        for one in stats:
            assert (one["MetricName"], ("Source", SOURCE)) in published


def test_the_command_puts_them(cloud: Any, namespace: str, tmp_path: Any) -> None:
    result = CliRunner().invoke(
        app,
        [
            *("metrics", "alarms", "cloudwatch", "--namespace", namespace, "--source", SOURCE),
            *("--response-s", "1.5", "--action", "arn:aws:sns:us-east-1:123456789012:ops"),
            "--json",
        ],
    )

    assert result.exit_code == 0, result.output
    [said] = result.stdout.splitlines()
    names = json.loads(said)["alarms"]
    found = {a["AlarmName"]: a for a in cloud.describe_alarms(AlarmNames=names)["MetricAlarms"]}
    alarm = found[f"headrace {SOURCE} ResponseTime"]
    assert alarm["Threshold"] == 1.5
    assert alarm["AlarmActions"] == ["arn:aws:sns:us-east-1:123456789012:ops"]
