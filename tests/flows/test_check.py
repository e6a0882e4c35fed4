"""The flow: breaches are its state, its events and rows of a table; a sound lake has none."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
from support.pulls import Watcher, run_backfill, run_pull

from headrace.checks.report import Check, CheckReport
from headrace.lake.names import product_prefix
from headrace.products.choice import NothingStored, NotInLake
from headrace.run.report import Status
from headrace.sim import SimulatedExchange
from tasks import events

pytestmark = pytest.mark.flows


def run_check(lake: Path, *products: str, **parameters: Any) -> CheckReport:
    """The report of the flow, as a deployment runs it; what kept it from beginning is raised."""
    from flows.check import check
    from tasks.kernel import observing

    watcher = Watcher()
    with observing(watcher):
        state = check(list(products), lake=str(lake), **parameters, return_state=True)
    if watcher.summary is None:
        state.result(raise_on_failure=True)
    assert isinstance(watcher.summary, CheckReport)
    assert state.name == {Status.DONE: "Completed", Status.PARTIAL: "Partial"}.get(
        watcher.summary.status, "Failed"
    )
    return watcher.summary


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(events, "emit_event", lambda **event: found.append(event))
    return found


def test_an_honest_lake_that_grows_breaches_nothing(
    lake: Path, emitted: list[dict[str, Any]]
) -> None:
    catalogue = ("BTC-USD:9000,growth_per_s=100", "THIN-USD:9000,density=0.1,gaps=0.3", "NEW-USD:0")
    with SimulatedExchange(*catalogue, "LATE-USD:3000,first_id=400001", seed=5) as sim:
        products = ["BTC-USD", "THIN-USD", "NEW-USD", "LATE-USD"]
        for _ in range(2):
            run_pull("ingest", sim, lake, products)
            report = run_check(lake)
            assert (report.status, report.breaches) == (Status.DONE, [])
        run_backfill(sim, lake, products)
        report = run_check(lake)
        assert (report.status, report.breaches) == (Status.DONE, [])
        assert {each.product for each in report.products} >= {"BTC-USD", "THIN-USD", "LATE-USD"}
    assert [event for event in emitted if "check" in event["event"]] == []


def test_breaches_are_a_partial_run_a_table_and_one_event_each(
    lake: Path, emitted: list[dict[str, Any]]
) -> None:
    with SimulatedExchange("BTC-USD:4000", "ETH-USD:700", seed=5) as sim:
        faulty = {"trade_id": 2500, "time": "1970-01-01T00:00:00Z", "price": "0", "size": "-1"}
        sim.replace_rows("BTC-USD", {2500: {**faulty, "side": "buy"}})
        run_backfill(sim, lake, ["BTC-USD", "ETH-USD"], pages_per_chunk=1)
    part = min((lake / product_prefix("coinbase", "BTC-USD")).glob("part-*.parquet"))
    part.unlink()
    report = run_check(lake)
    assert report.status is Status.PARTIAL
    btc, eth = report.products
    assert (eth.status, eth.rows) == (Status.DONE, 700)
    # The checkpoint knows that the part was there.
    found = {breach.check: breach for breach in btc.breaches}
    assert found.keys() == {Check.MISSING, Check.PRICE, Check.SIZE, Check.TIME}
    assert found[Check.MISSING].range is not None
    assert found[Check.MISSING].range[0] == 1
    assert found[Check.PRICE].range == (2500, 2500)

    failed = [event for event in emitted if event["event"] == "headrace.product.check-failed"]
    assert {event["resource"]["headrace.check"] for event in failed} == set(found)
    assert {event["resource"]["prefect.resource.id"] for event in failed} == {
        "headrace.product.BTC-USD"
    }
    assert failed[1]["payload"]["message"] == found[Check.PRICE].message

    with get_client(sync_client=True) as client:
        of_run = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[report.run]))
        artifacts = {each.key: each.data for each in client.read_artifacts(artifact_filter=of_run)}
    assert {"headrace-check", "headrace-check-breaches", "headrace-check-summary"} <= set(artifacts)
    rows = json.loads(artifacts["headrace-check"])
    assert [(row["product"], row["price"], row["jump"]) for row in rows] == [
        ("BTC-USD", 1, 0),
        ("ETH-USD", 0, 0),
    ]
    assert len(json.loads(artifacts["headrace-check-breaches"])) == 4
    assert run_check(lake, "ETH-USD").status is Status.DONE
    assert [each.product for each in run_check(lake, match=["ETH-*"]).products] == ["ETH-USD"]


def test_what_is_not_there_is_refused_and_not_made(lake: Path) -> None:
    with pytest.raises(NothingStored):
        run_check(lake)
    assert not lake.exists()
    with SimulatedExchange("BTC-USD:100") as sim:
        run_backfill(sim, lake, ["BTC-USD"])
    with pytest.raises(NotInLake, match="holds nothing of NOPE-USD"):
        run_check(lake, "NOPE-USD")


def test_a_pull_that_is_asked_to_checks_what_it_stored(
    lake: Path, emitted: list[dict[str, Any]]
) -> None:
    with SimulatedExchange("BTC-USD:2500", "ETH-USD:700", "NEW-USD:0", seed=5) as sim:
        products = ["BTC-USD", "ETH-USD", "NEW-USD"]
        first = run_backfill(sim, lake, products)
        assert (first.status, first.check) == (Status.DONE, None)
        sim.grow("BTC-USD", 500)
        sound = run_pull("ingest", sim, lake, products, check=True)
        assert isinstance(sound.check, CheckReport)
        # What was stored before is not read again, but for the newest part.
        assert sound.check.products[0].status is Status.DONE
        assert sound.check.products[0].rows < 3_000

        sim.grow("BTC-USD", 500)
        sim.replace_rows("BTC-USD", {3_300: _faulty(3_300)})
        report = run_pull("ingest", sim, lake, products, check=True)
    assert report.status is Status.PARTIAL
    assert {each.status for each in report.products} == {Status.DONE}
    assert report.title() == "complete, but checks failed (BTC-USD)"
    summary = report.as_json()
    [breach, *_] = summary["check"]["products"][0]["breaches"]
    assert (breach["check"], breach["range"]) == ("size", [3_300, 3_300])
    assert any(line.startswith("check: BTC-USD: size") for line in report.remarks())
    assert {sheet.key for sheet in report.sheets()} == {"coverage", "check", "check-breaches"}
    failed = [event for event in emitted if event["event"] == "headrace.product.check-failed"]
    assert "size" in {event["resource"]["headrace.check"] for event in failed}


def _faulty(trade_id: int) -> dict[str, Any]:
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"trade_id": trade_id, "time": moment, "price": "100", "size": "-1", "side": "buy"}
