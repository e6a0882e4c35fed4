"""The text file: its format, runs that share it, and what a scrape may find."""

import multiprocessing
import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.metrics import Distribution, Meter, SinkError
from headrace.metrics.catalogue import (
    BREAKER_OPENS,
    NEWEST,
    OTHER,
    REQUESTS,
    RESPONSE,
    ROWS,
    THROTTLED,
)
from headrace.metrics.prometheus import PrometheusFile


@pytest.fixture
def path(tmp_path):
    return tmp_path / "textfile" / "headrace.prom"


def samples(path):
    families = text_string_to_metric_families(path.read_text())
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def requests_of(path, product):
    key = ("headrace_requests_total", ("product", product), ("source", "x"))
    return samples(path)[key]


def publish(path, requests, product="A-B", **options):
    meter = Meter()
    meter.count(REQUESTS, requests, source="x", product=product)
    PrometheusFile(path, **options).publish(meter.take(), 0.0)


def test_every_kind_of_figure_is_there_with_help_and_type(path):
    meter, took = Meter(), Distribution()
    took.observe(0.2)
    took.observe(4.0)
    meter.count(BREAKER_OPENS, 0, source="x")
    meter.set(NEWEST, 1_700_000_000.5, source="x", product="A-B")
    meter.observe(RESPONSE, took, source="x")
    PrometheusFile(path).publish(meter.take(), 0.0)

    found = samples(path)
    # A counter that is only known from its first rise on would hide that rise from increase().
    assert found["headrace_breaker_opens_total", ("source", "x")] == 0
    moment = "headrace_newest_timestamp_seconds", ("product", "A-B"), ("source", "x")
    assert found[moment] == 1_700_000_000.5
    assert found["headrace_response_seconds_bucket", ("le", "3.0"), ("source", "x")] == 1
    assert found["headrace_response_seconds_bucket", ("le", "+Inf"), ("source", "x")] == 2
    assert found["headrace_response_seconds_sum", ("source", "x")] == pytest.approx(4.2)
    text = path.read_text()
    assert "# TYPE headrace_breaker_opens_total counter" in text
    assert "# TYPE headrace_response_seconds histogram" in text
    assert "# HELP headrace_newest_timestamp_seconds " in text


def test_counters_and_times_go_on_over_runs(path):
    for _ in range(3):
        meter, took = Meter(), Distribution()
        took.observe(1.2)
        meter.count(REQUESTS, 10, source="x", product="A-B")
        meter.observe(RESPONSE, took, source="x")
        PrometheusFile(path).publish(meter.take(), 0.0)

    assert requests_of(path, "A-B") == 30
    found = samples(path)
    assert found["headrace_response_seconds_count", ("source", "x")] == 3
    assert found["headrace_response_seconds_sum", ("source", "x")] == pytest.approx(3.6)
    assert found["headrace_response_seconds_bucket", ("le", "1.0"), ("source", "x")] == 0


def work(path, times):
    for _ in range(times):
        publish(path, 1)


def test_runs_at_once_lose_nothing_of_each_other(path):
    workers = [multiprocessing.Process(target=work, args=(path, 20)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert requests_of(path, "A-B") == 60


def test_a_scrape_never_meets_half_a_file(path):
    publish(path, 1)
    with ThreadPoolExecutor() as pool:
        writing = pool.submit(work, path, 60)
        seen = 0.0
        while not writing.done():
            now = requests_of(path, "A-B")
            assert now >= seen
            seen = now
    assert [each.name for each in path.parent.glob("*.prom")] == ["headrace.prom"]


def test_the_cap_on_products_holds_over_runs(path):
    for number in range(6):
        publish(path, 1, product=f"P{number}-USD", most_products=3)

    products = {dict(labels)["product"] for _, *labels in samples(path)}
    assert products == {"P0-USD", "P1-USD", "P2-USD", OTHER}
    assert requests_of(path, OTHER) == 3


def test_a_damaged_file_is_reported_and_replaced(path, caplog):
    publish(path, 5)
    path.write_text('headrace_requests_total{source="x"\x00 nonsense')
    publish(path, 7)

    assert requests_of(path, "A-B") == 7
    assert "damaged" in caplog.text


def test_metrics_of_others_are_not_kept_but_harmless(path):
    path.parent.mkdir()
    path.write_text('node_load1 0.5\nheadrace_requests_total{elsewhere="1"} 9\n')
    publish(path, 2)

    assert requests_of(path, "A-B") == 2


def test_the_exporter_may_read_it_whatever_the_umask(path):
    path.parent.mkdir()
    before = os.umask(0o077)
    try:
        publish(path, 1)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_what_a_killed_run_left_is_neither_read_nor_in_the_way(path):
    publish(path, 1)
    (path.parent / f".{path.name}.new").write_text("half of a fi")
    publish(path, 1)

    assert requests_of(path, "A-B") == 2
    assert sorted(each.name for each in path.parent.iterdir()) == [
        f".{path.name}.lock", path.name,
    ]  # fmt: skip


def test_a_planted_link_is_not_followed(path, tmp_path):
    path.parent.mkdir()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (path.parent / f".{path.name}.new").symlink_to(victim)

    with pytest.raises(SinkError):
        publish(path, 1)
    assert victim.read_text() == "precious"


def test_a_folder_that_cannot_be_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match=r"headrace\.prom"):
        publish(tmp_path / "file" / "headrace.prom", 1)


def test_a_label_with_quotes_stays_one_label(path):
    publish(path, 1, product='x"} 1\nevil_total 9\n')

    assert [name for name, *_ in samples(path)] == ["headrace_requests_total"]


def test_zero_throttles_are_zero_not_absent(path):
    meter = Meter()
    meter.count_to(THROTTLED, 0, source="x")
    meter.count_to(ROWS, 0, source="x", product="A-B")
    PrometheusFile(path).publish(meter.take(), 0.0)

    assert samples(path)["headrace_throttled_total", ("source", "x")] == 0
