"""Runs as operators meet them: lines in the UI and on standard error, metrics in a file."""

import io
import json
import logging
import threading
import time
from uuid import UUID

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.logging.handlers import PrefectConsoleHandler
from prefect.runtime import flow_run
from rich.console import Console
from support.metrics import samples

from flows.backfill import backfill
from flows.ingest import ingest
from headrace.cli.display import Display
from headrace.settings import load_settings
from headrace.sim import SimulatedExchange
from tasks.kernel import observing
from tasks.logs import RunLogHandler, logs_of_run

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
        outcome = flow(**given, return_state=True).result(raise_on_failure=False)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

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


def test_a_product_that_the_exchange_does_not_know_is_named_once(run, monkeypatch, capfd):
    monkeypatch.setenv("HEADRACE_LOG_FORMAT", "json")
    run(products=["BTC-USD"])
    capfd.readouterr()
    summary = run(products=["BTC-UDS"])

    [remark] = summary.remarks()
    reason = remark.removeprefix("BTC-UDS: ")
    assert reason.startswith("the exchange does not know it (404). Did you mean BTC-USD? ")
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line[:1] == "{"]
    said = [line for line in lines if line["level"] == "warning"]
    assert [line["event"] for line in said] == ["product-ended", "run-ended"]
    product, end = said
    assert (product["product"], product["message"]) == (
        "BTC-UDS", f"failed: 0 new trades ({reason})",
    )  # fmt: skip
    assert end["message"].startswith("failed: 0 new trades with ")


class Logger:
    def __init__(self):
        self.said = []

    def log(self, _level, text, *args):
        self.said.append(text % args)

    def info(self, text, *args):
        self.said.append(text % args)


def test_the_api_is_not_flooded(monkeypatch):
    logger = Logger()
    monkeypatch.setattr("tasks.logs.get_run_logger", lambda: logger)
    handler = RunLogHandler("r1", most_lines=5, most_warnings=2)
    log = logging.getLogger("headrace.tests.flood")
    log.propagate = False
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    for number in range(5_000):
        log.info("line %d", number)
        log.warning("warning %d", number)

    assert [text for text in logger.said if "last of" not in text] == [
        "line 0", "warning 0", "line 1", "warning 1", "line 2", "line 3", "line 4",
    ]  # fmt: skip
    assert len(logger.said) == 7 + 2


@pytest.fixture
def console():
    """What a worker's console shows."""
    shown = io.StringIO()
    handler = PrefectConsoleHandler(stream=shown)
    logging.getLogger().addHandler(handler)
    yield shown
    logging.getLogger().removeHandler(handler)


def test_a_worker_shows_each_line_once_with_its_product_and_chunk(run, console):
    run()

    [line] = [line for line in console.getvalue().splitlines() if "BTC-USD 1-1000" in line]
    assert line.endswith("[BTC-USD 1-1000] stored")
    assert console.getvalue().count("7,700 new trades with") == 2  # the line, and Prefect's own


def test_a_worker_that_speaks_json_shows_nothing_else(run, console, monkeypatch):
    monkeypatch.setenv("HEADRACE_LOG_FORMAT", "json")
    run()

    assert "stored" not in console.getvalue()


def test_a_bare_thread_speaks_for_the_run_as_well(sim, tmp_path):
    @flow
    def speaking():
        run_id = str(flow_run.id)
        with logs_of_run(run_id, load_settings()):
            thread = threading.Thread(
                target=logging.getLogger("headrace.leases").warning, args=("from a bare thread",)
            )
            thread.start()
            thread.join()
        return run_id

    found = logs_of(speaking(), lambda logs: any("bare thread" in each.message for each in logs))
    assert any("from a bare thread" in each.message for each in found)


def test_metrics_of_a_run_are_in_the_file_and_those_of_the_next_on_top(
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

    for receipt in summary.products:
        assert first["headrace_requests_total", receipt.product] == receipt.requests
    assert (first["headrace_rows_total", "BTC-USD"], first["headrace_rows_total", "ETH-USD"]) == (
        6_500, 1_200,
    )  # fmt: skip
    assert second["headrace_rows_total", "ETH-USD"] == 1_500
    assert first["headrace_throttled_total", ""] == 1
    assert first["headrace_breaker_opens_total", ""] == 0
    assert second["headrace_response_seconds_count", ""] == summary.requests + again.requests
    assert abs(time.time() - second["headrace_newest_timestamp_seconds", "ETH-USD"]) < 3_600
    assert second["headrace_missing_ids", "ETH-USD"] == 0
    assert second["headrace_runs_total", "backfill"] == 1
    assert second["headrace_runs_total", "ingest"] == 1


def test_metrics_that_cannot_be_written_do_not_break_a_run(run, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADRACE_METRICS", f"prometheus:{tmp_path / 'file' / 'x.prom'}")

    assert run().status.value == "done"


def test_a_setting_that_means_nothing_is_refused_before_any_request(run, sim, monkeypatch):
    monkeypatch.setenv("HEADRACE_METRICS", "statsd:x")
    with pytest.raises(Exception, match="HEADRACE_METRICS"):
        run()
    assert sim.stats()["requests"] == 0


def test_the_terminal_draws_a_bar_per_product_and_lines_above_them(run, sim):
    drawn = io.StringIO()
    display = Display(console=Console(file=drawn, force_terminal=True, width=100))
    sim.add_fault("respond,status=403,product=ETH-USD,calls=1")
    with observing(display):
        run()

    assert display.report is not None
    for words in ("BTC-USD", "7/7 pages", "trades", "ETH-USD", "failed"):
        assert words in drawn.getvalue()


def test_where_lines_are_json_nothing_is_drawn(run, caplog):
    drawn = io.StringIO()
    display = Display(as_lines=True, console=Console(file=drawn, force_terminal=True))
    with observing(display), caplog.at_level(logging.INFO):
        display.say("Prefect UI: http://127.0.0.1:1")
        run()

    assert drawn.getvalue() == ""
    assert "Prefect UI: http://127.0.0.1:1" in caplog.text
