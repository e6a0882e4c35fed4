"""Runs choose their products once, from list and lake; a delisted product keeps its data."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.pulls import Watcher, assert_lake_equals_source

from headrace.audit.report import AuditReport
from headrace.lake.opening import make_store
from headrace.leases import SqliteLeases
from headrace.products.choice import NothingChosen, UnknownSet
from headrace.products.list_file import change_list
from headrace.products.listing import NamedSet, ProductList
from headrace.pull.report import Summary
from headrace.run.report import Status
from headrace.sim import ProductSpec, SimulatedExchange

pytestmark = pytest.mark.flows


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def change(lake: Path, what: Any) -> ProductList:
    leases = SqliteLeases(lake.parent / "leases")
    return change_list(make_store(str(lake)), "coinbase", leases, what)


def sync(lake: Path, sim: SimulatedExchange) -> ProductList:
    from headrace.cli.products import _asked

    listed = _asked(sim.url, ["none"])
    now = datetime.now(UTC)
    return change(lake, lambda kept: kept.with_listed(listed, source="localhost", now=now)[0])


def run(flow: str, sim: SimulatedExchange, lake: Path, **parameters: Any) -> Any:
    """The report of a flow, as a deployment runs it; what kept it from beginning is raised."""
    from importlib import import_module

    from tasks.kernel import observing

    watcher = Watcher()
    access = {"rate": "none", "lake": str(lake), "base_url": sim.url}
    with observing(watcher):
        state = getattr(import_module(f"flows.{flow}"), flow)(
            **access, **parameters, return_state=True
        )
    if watcher.summary is None:
        state.result(raise_on_failure=True)
    return watcher.summary


def products_of(report: Summary | AuditReport) -> dict[str, Status]:
    return {each.product: each.status for each in report.products}


def test_a_delisted_product_keeps_its_data_and_is_asked_for_no_more(lake: Path) -> None:
    with SimulatedExchange("BTC-USD:1500", "ETH-USD:700", "ETH-EUR:300", seed=4) as sim:
        sync(lake, sim)
        change(lake, lambda kept: kept.with_set(NamedSet("eth", match=("ETH-*",))))
        first = run("backfill", sim, lake, all=True)
        assert first.status is Status.DONE
        assert list(products_of(first)) == ["BTC-USD", "ETH-EUR", "ETH-USD"]
        assert first.as_json()["chosen"] == "--all: 3 products"
        assert r"products by \-\-all: 3 products" in first.markdown()

        sim.put_product(ProductSpec(id="ETH-EUR", trades=300, listing="unknown"))
        sim.grow("ETH-USD", 60)
        sync(lake, sim)
        assert list(products_of(run("ingest", sim, lake, all=True))) == ["BTC-USD", "ETH-USD"]
        assert list(products_of(run("ingest", sim, lake, set="eth"))) == ["ETH-USD"]
        assert_lake_equals_source(lake, sim, "ETH-EUR")

        sim.reset_log()
        report = run("audit", sim, lake, match=["ETH-*"])
        assert products_of(report) == {"ETH-EUR": Status.DONE, "ETH-USD": Status.DONE}
        assert (report.requests, sim.stats()["requests"]) == (1, 1)
        delisted, listed = report.products
        assert [finding.kind.value for finding in delisted.findings] == ["delisted"]
        assert listed.findings == ()
        assert "products by" in report.markdown()
        assert report.as_json()["chosen"] == "--match ETH-*: 2 products"


def test_an_audit_of_a_set_finds_missing_what_was_never_fetched(lake: Path) -> None:
    with SimulatedExchange("BTC-USD:500", "ETH-USD:700", seed=4) as sim:
        sync(lake, sim)
        change(lake, lambda kept: kept.with_set(NamedSet("mine", ("BTC-USD", "ETH-USD"))))
        run("backfill", sim, lake, products=["BTC-USD"])
        report = run("audit", sim, lake, set="mine")
        assert products_of(report) == {"BTC-USD": Status.DONE, "ETH-USD": Status.PARTIAL}
        assert report.products[1].counted.missing.ranges == ((1, 700),)


def test_what_means_no_product_ends_a_run_before_a_request(lake: Path) -> None:
    with SimulatedExchange("BTC-USD:500") as sim:
        sync(lake, sim)
        sim.reset_log()
        with pytest.raises(UnknownSet, match="named 'nope'"):
            run("backfill", sim, lake, set="nope")
        with pytest.raises(NothingChosen, match="no product is meant by it"):
            run("ingest", sim, lake, match=["ETH"])
        assert sim.stats()["requests"] == 0
        path = lake.parent / "ids.txt"
        path.write_text("BTC-USD\n")
        assert products_of(run("ingest", sim, lake, from_file=str(path))) == {
            "BTC-USD": Status.DONE
        }
