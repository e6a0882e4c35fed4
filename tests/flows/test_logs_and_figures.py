"""Runs as operators meet them: lines in the UI and on standard error, figures in a file."""

import json
import logging
import time
from uuid import UUID

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prometheus_client.parser import text_string_to_metric_families

from flows.backfill import backfill
from flows.ingest import ingest
from headrace.sim import SimulatedExchange
from tasks.logs import RunLogHandler

pytestmark = pytest.mark.flows


@pytest.fixture
def sim():
    with SimulatedExchange("BTC-USD:6500", "ETH-USD:1200", seed=4) as exchange:
        yield exchange


@pytest.fixture
def run(sim, tmp_path):
    def start(flow=backfill, **parameters):
        given = {
            "products": ["BTC-USD", "ETH-USD"],
            "lake": str(tmp_path / "lake"),
            "base_url": sim.url,
            "rate": "none",
            "pages_per_chunk": 1,
            **parameters,
        }
        return flow(**given, return_state=True).result()

    return start


def logs_of(run_id, enough):
    """The lines that the API has of a run, once there are enough of them."""
    only = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[UUID(run_id)]))
    deadline = time.monotonic() + 20
    with get_client(sync_client=True) as client:
        while True:
            found = client.read_logs(log_filter=only, limit=200)
            if enough(found) or time.monotonic() > deadline:
                return found
            time.sleep(0.2)


def samples(path):
    return {
        (sample.name, sample.labels.get("product") or sample.labels.get("status", "")): sample.value
        for family in text_string_to_metric_families(path.read_text())
        for sample in family.samples
    }


def test_the_ui_has_a_line_per_chunk_commit_product_and_run(run):
    summary = run()

    found = logs_of(summary.run, lambda logs: any("new trades with" in log.message for log in logs))
    said = [log.message for log in found]
    assert "[BTC-USD 1-1000] stored" in said
    assert any(line.startswith("[ETH-USD] committed, complete up to trade") for line in said)
    assert any(line.startswith("[ETH-USD] done: 1,200 new trades") for line in said)
    assert any("7,700 new trades with" in line for line in said)
    of_chunk = next(log for log in found if log.message == "[BTC-USD 1-1000] stored")
    assert of_chunk.task_run_id is not None
    assert str(of_chunk.flow_run_id) == summary.run
    assert not any("trade_id" in line for line in said)


def test_json_lines_carry_run_product_and_chunk(run, monkeypatch, capfd):
    monkeypatch.setenv("HEADRACE_LOG_FORMAT", "json")
    capfd.readouterr()
    summary = run()

    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line[:1] == "{"]
    chunks = [line for line in lines if line.get("event") == "chunk-stored"]
    assert {line["run"] for line in lines} == {summary.run}
    assert {(line["product"], line["chunk"]) for line in chunks} >= {
        ("BTC-USD", "1-1000"),
        ("ETH-USD", "1001-1200"),
    }
    assert sum(line["rows"] for line in chunks) == 7_700
    [end] = [line for line in lines if line.get("event") == "run-ended"]
    assert (end["rows"], end["status"]) == (7_700, "done")


def test_a_chunk_that_fails_is_a_warning_about_that_chunk(run, sim, monkeypatch, capfd):
    monkeypatch.setenv("HEADRACE_LOG_FORMAT", "json")
    sim.add_fault("respond,status=403,product=ETH-USD,calls=1")
    capfd.readouterr()
    run()

    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line[:1] == "{"]
    failed = [line for line in lines if line["level"] == "warning"]
    assert failed
    assert all(line["product"] == "ETH-USD" or line["event"] == "run-ended" for line in failed)


def test_the_api_is_not_flooded(caplog):
    handler = RunLogHandler("00000000-0000-0000-0000-000000000001", most_lines=5, most_warnings=2)
    sent = []
    handler._logger = lambda: type(
        "Logger", (), {"log": lambda _, *a: sent.append(a), "info": lambda _, *a: sent.append(a)}
    )()
    log = logging.getLogger("headrace.tests.flood")
    log.propagate = False
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    for number in range(5_000):
        log.info("line %d", number)
        log.warning("warning %d", number)

    assert len(sent) == 5 + 1 + 2 + 1
    assert sum("last of" in str(args[0]) for args in sent) == 2


def test_figures_of_a_run_are_in_the_file_and_those_of_the_next_on_top(
    run, sim, tmp_path, monkeypatch
):
    path = tmp_path / "headrace.prom"
    monkeypatch.setenv("HEADRACE_METRICS", f"prometheus:{path}")
    sim.add_fault("respond,status=429,product=BTC-USD,calls=1")
    summary = run()
    first = samples(path)
    sim.grow("ETH-USD", 300)
    again = run(ingest)
    second = samples(path)

    requests = {
        product: sum(s.requests for s in (summary, again)[0].products if s.product == product)
        for product in ("BTC-USD", "ETH-USD")
    }
    for product, count in requests.items():
        assert first["headrace_requests_total", product] == count
    assert (first["headrace_rows_total", "BTC-USD"], first["headrace_rows_total", "ETH-USD"]) == (
        6_500, 1_200,
    )  # fmt: skip
    assert second["headrace_rows_total", "ETH-USD"] == 1_500
    assert first["headrace_throttled_total", ""] == 1
    assert first["headrace_breaker_opens_total", ""] == 0
    assert second["headrace_response_seconds_count", ""] == summary.requests + again.requests
    assert abs(time.time() - second["headrace_newest_timestamp_seconds", "ETH-USD"]) < 3_600
    assert second["headrace_missing_ids", "ETH-USD"] == 0
    assert second["headrace_runs_total", "done"] == 2


def test_figures_that_cannot_be_written_do_not_break_a_run(run, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADRACE_METRICS", f"prometheus:{tmp_path / 'file' / 'x.prom'}")

    assert run().status.value == "done"


def test_a_setting_that_means_nothing_is_refused_before_any_request(run, sim, monkeypatch):
    monkeypatch.setenv("HEADRACE_METRICS", "statsd:x")
    with pytest.raises(Exception, match="HEADRACE_METRICS"):
        run()
    assert sim.stats()["requests"] == 0
