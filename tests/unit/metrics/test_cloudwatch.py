"""What is sent to CloudWatch, datum by datum."""

from datetime import UTC, datetime

import pytest

from headrace.metrics import Distribution, Meter
from headrace.metrics.catalogue import NEWEST, QUOTA_USED, REQUESTS, RESPONSE, ROWS
from headrace.metrics.cloudwatch import CloudWatch


class Client:
    def __init__(self):
        self.calls = []

    def put_metric_data(self, *, Namespace, MetricData):  # noqa: N803 - boto3's names
        self.calls.append((Namespace, MetricData))


@pytest.fixture
def client():
    return Client()


def sent(client, meter, at=600.0, wall=1_000.0):
    CloudWatch("ours", client=client, wall=lambda: wall).publish(meter.take(), at)
    [(_, data)] = client.calls
    return {
        (one["MetricName"], *(d["Value"] for d in one["Dimensions"])): one for one in data
    }  # fmt: skip


def test_products_are_sent_and_their_total_without_them(client):
    meter = Meter()
    meter.count(REQUESTS, 3, source="x", product="A-B")
    meter.count(REQUESTS, 4, source="x", product="C-D")
    data = sent(client, meter)

    assert {key: one["Value"] for key, one in data.items()} == {
        ("Requests", "x", "A-B"): 3.0,
        ("Requests", "x", "C-D"): 4.0,
        ("Requests", "x"): 7.0,
    }
    assert {one["Timestamp"] for one in data.values()} == {datetime.fromtimestamp(600, UTC)}
    assert client.calls[0][0] == "ours"


def test_a_product_that_did_not_move_costs_nothing_but_the_total_says_zero(client):
    meter = Meter()
    meter.count(ROWS, 0, source="x", product="A-B")

    assert {key: one["Value"] for key, one in sent(client, meter).items()} == {("Rows", "x"): 0.0}


def test_a_moment_is_sent_as_its_age_and_the_total_is_the_oldest(client):
    meter = Meter()
    meter.set(NEWEST, 990.0, source="x", product="A-B")
    meter.set(NEWEST, 400.0, source="x", product="C-D")
    meter.set(NEWEST, 1_060.0, source="x", product="E-F")  # a clock ahead of ours
    data = sent(client, meter)

    assert {key: one["Value"] for key, one in data.items()} == {
        ("DataAge", "x", "A-B"): 10.0,
        ("DataAge", "x", "C-D"): 600.0,
        ("DataAge", "x", "E-F"): 0.0,
        ("DataAge", "x"): 600.0,
    }


def test_times_are_sent_as_statistics_and_not_at_all_without_any(client):
    meter, took = Meter(), Distribution()
    meter.observe(RESPONSE, Distribution(), source="quiet")
    took.observe(1.0)
    took.observe(3.0)
    meter.observe(RESPONSE, took, source="x")
    [one] = sent(client, meter).values()

    assert one["StatisticValues"] == {
        "SampleCount": 2.0, "Sum": 4.0, "Minimum": 1.0, "Maximum": 3.0,
    }  # fmt: skip
    assert one["Unit"] == "Seconds"


def test_a_share_is_sent_in_percent(client):
    meter = Meter()
    meter.set(QUOTA_USED, 0.25, source="x", flow="ingest")
    [one] = sent(client, meter).values()

    assert (one["Value"], one["Unit"]) == (25.0, "Percent")


def test_no_request_holds_more_than_is_allowed(client):
    meter = Meter(most_products=2_000)
    for number in range(1_500):
        meter.count(REQUESTS, 1, source="x", product=f"P{number}")
    CloudWatch("ours", client=client).publish(meter.take(), 0.0)

    assert [len(data) for _, data in client.calls] == [1_000, 501]
