"""Adding up metrics: deltas, totals, times, and the cap on products."""

import threading

import pytest

from headrace.metrics import Distribution, Meter, catalogue
from headrace.metrics.catalogue import NEWEST, OTHER, REQUESTS, RESPONSE, THROTTLED
from headrace.metrics.meter import without_product


def values(points, metric):
    return {dict(p.labels).get("product", ""): p.value for p in points if p.metric is metric}


def test_a_counter_gives_what_came_on_top_and_then_nothing():
    meter = Meter()
    meter.count(THROTTLED, 2, source="x")
    meter.count(THROTTLED, 3, source="x")

    assert values(meter.take(), THROTTLED) == {"": 5}
    assert values(meter.take(), THROTTLED) == {"": 0}


def test_a_running_total_is_counted_by_its_differences():
    meter = Meter()
    meter.count_to(REQUESTS, 10, source="x", product="A-B")
    meter.take()
    meter.count_to(REQUESTS, 14, source="x", product="A-B")
    meter.count_to(REQUESTS, 15, source="x", product="A-B")

    assert values(meter.take(), REQUESTS) == {"A-B": 5}


def test_a_gauge_stays_what_it_was():
    meter = Meter()
    meter.set(NEWEST, 7.0, source="x", product="A-B")
    meter.take()

    assert values(meter.take(), NEWEST) == {"A-B": 7.0}


def test_products_beyond_the_cap_are_one_series():
    meter = Meter(most_products=2)
    for number in range(50):
        meter.count(REQUESTS, 1, source="x", product=f"P{number}-USD")
        meter.set(NEWEST, 100.0 - number, source="x", product=f"P{number}-USD")
    points = meter.take()

    assert values(points, REQUESTS) == {"P0-USD": 1, "P1-USD": 1, OTHER: 48}
    # The oldest stands for those that have no series of their own.
    assert values(points, NEWEST)[OTHER] == 51.0


def test_the_total_over_products_is_the_sum_of_counts_and_the_oldest_of_moments():
    meter = Meter()
    for product, requests, newest in (("A-B", 3, 10.0), ("C-D", 4, 20.0)):
        meter.count(REQUESTS, requests, source="x", product=product)
        meter.set(NEWEST, newest, source="x", product=product)
    totals = without_product(meter.take())

    assert values(totals, REQUESTS) == {"": 7}
    assert values(totals, NEWEST) == {"": 10.0}
    assert all(dict(point.labels) == {"source": "x"} for point in totals)


def test_labels_that_a_figure_does_not_have_are_refused():
    with pytest.raises(ValueError, match="throttled has the labels"):
        Meter().count(THROTTLED, 1, source="x", product="A-B")


def test_times_keep_count_sum_extremes_and_a_histogram():
    took = Distribution()
    for seconds in (0.01, 0.3, 3.0, 3.1, 99.0):
        took.observe(seconds)

    assert (took.count, took.least, took.most) == (5, 0.01, 99.0)
    assert took.total == pytest.approx(105.41)
    bounds = dict(took.cumulative())
    assert (bounds[0.05], bounds[0.3], bounds[3.0], bounds[5.0]) == (1, 2, 3, 4)
    assert bounds[float("inf")] == 5


def test_taken_times_are_taken_once_and_add_up_over_threads():
    took, meter = Distribution(), Meter()

    def work():
        for _ in range(2_000):
            took.observe(0.2)
            meter.observe(RESPONSE, took.take(), source="x")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    meter.observe(RESPONSE, took.take(), source="x")

    [point] = meter.take()
    assert point.value.count == 8_000
    assert point.value.total == pytest.approx(1_600)


def test_names_are_given_once_in_both_worlds():
    for name in ("name", "cloud_name"):
        names = [getattr(metric, name) for metric in catalogue.CATALOGUE]
        assert len(set(names)) == len(names)
