"""The page of a lake at the end of a run, and its part that comes from the Prefect API."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
from support.pulls import run_pull

from headrace.cli.report import report
from headrace.run.report import Status
from headrace.sim import Fault, SimulatedExchange
from headrace.sim.actions import Respond
from tests.flows.test_transform import run_transform

pytestmark = pytest.mark.flows


def link_of(run: str) -> str | None:
    """What the link that a run left says."""
    of_run = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run]))
    with get_client(sync_client=True) as client:
        artifacts = {each.key: each.data for each in client.read_artifacts(artifact_filter=of_run)}
    link = artifacts.get("headrace-report")
    assert link is None or isinstance(link, str)
    return link


def test_a_run_writes_the_page_and_links_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, page = tmp_path / "lake", tmp_path / "page.html"
    with SimulatedExchange("BTC-USD:2500", seed=1) as sim:
        pulled = run_pull("backfill", sim, lake, ["BTC-USD"], report=str(page))
    assert f"({page.as_uri()})" in (link_of(pulled.run) or "")
    assert "BTC-USD" in page.read_text()
    assert "backfill" in page.read_text().partition("Last runs")[2]

    monkeypatch.setenv("HEADRACE_REPORT", str(page))
    monkeypatch.setenv("HEADRACE_REPORT_URL", "https://reports.example/lake.html")
    transformed = run_transform(lake)
    assert "(https://reports.example/lake.html)" in (link_of(transformed.run) or "")
    assert "version 1, 1 file" in page.read_text()


def test_a_page_that_cannot_be_written_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake = tmp_path / "lake"
    with SimulatedExchange("BTC-USD:500", seed=1) as sim, caplog.at_level(logging.WARNING):
        pulled = run_pull("ingest", sim, lake, ["BTC-USD"], report=str(lake / "page.html"))
    assert pulled.status is Status.DONE
    assert link_of(pulled.run) is None
    assert "is in the lake" in caplog.text
    assert not (lake / "page.html").exists()


def test_the_command_shows_the_last_runs_and_what_failed(tmp_path: Path) -> None:
    lake, page = tmp_path / "lake", tmp_path / "page.html"
    with SimulatedExchange("BTC-USD:9000", seed=1) as sim:
        run_pull("backfill", sim, lake, ["BTC-USD"], to_id=3000)
        sim.add_fault(Fault(action=Respond(status=400), cursor=6001))
        failed = run_pull("backfill", sim, lake, ["BTC-USD"], pages_per_chunk=1)
    assert failed.status is Status.PARTIAL
    report(output=page, lake=str(lake), check_last="none", runs=True)
    text = page.read_text()
    runs = text.partition("Last runs")[2]
    assert runs.index("Partial") < runs.index("Completed")
    assert "failed in the last run" in text
