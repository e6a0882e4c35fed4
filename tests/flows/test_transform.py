"""The flow brings the unified table up to date, on threads and on a cluster of processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from distributed import LocalCluster
from distributed.diagnostics.plugin import SchedulerPlugin
from lake_samples import trades
from prefect.exceptions import ParameterTypeError
from support.pulls import run_pull
from support.unified import PRODUCT, expected_rows, put, raw_rows, table_rows

from blocks.unified import BlockUnifiedStates
from headrace.errors import ConfigurationError
from headrace.lake import Lake, open_lake
from headrace.products.choice import NothingStored, NotInLake
from headrace.run.report import Status
from headrace.sim import SimulatedExchange
from headrace.unified.report import TransformReport
from headrace.unified.table import quarantine_table, unified_table

pytestmark = pytest.mark.flows

PRODUCTS = [f"P{n}-USD" for n in range(12)]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return open_lake(tmp_path / "lake")


def run_transform(lake: Lake | Path, **parameters: Any) -> TransformReport:
    """The report of the flow, as a deployment runs it; its errors are raised."""
    from flows.transform import transform

    location = lake.location if isinstance(lake, Lake) else str(lake)
    state = transform(lake=location, return_state=True, **parameters)
    outcome = state.result(raise_on_failure=False)
    if isinstance(outcome, BaseException):
        raise outcome
    assert isinstance(outcome, TransformReport)
    return outcome


def fill(lake: Lake, products: list[str], lo: int = 1) -> None:
    raw = lake.raw("coinbase")
    for product in products:
        put(raw, lo, lo + 999, trades(range(lo, lo + 1_000)), product=product)


def test_many_products_share_a_commit(lake: Lake) -> None:
    fill(lake, PRODUCTS)
    report = run_transform(lake)
    assert (report.status, report.version) == (Status.DONE, 1)
    assert [each.new_rows for each in report.products] == [1_000] * len(PRODUCTS)
    for product in PRODUCTS:
        assert table_rows(lake, product) == expected_rows(lake.raw("coinbase"), product)
    state = BlockUnifiedStates(lake.location).load()
    assert state is not None
    assert state["version"] == 1
    assert state["products"]["P3-USD"] == {"taken": [[1, 1_000]], "rows": 1_000, "files": 1}


def test_chosen_products_only_and_nothing_twice(lake: Lake) -> None:
    fill(lake, PRODUCTS[:3])
    assert [each.product for each in run_transform(lake, match=["P[12]-*"]).products] == [
        "P1-USD",
        "P2-USD",
    ]
    report = run_transform(lake)
    assert [each.new_rows for each in report.products] == [1_000, 0, 0]


def test_a_damaged_part_costs_its_product_alone(lake: Lake) -> None:
    fill(lake, PRODUCTS[:3])
    raw = lake.raw("coinbase")
    (part,) = raw.parts("P1-USD").parts
    Path(lake.location, part.key).write_bytes(b"PAR1 half")
    report = run_transform(lake)
    assert report.status is Status.PARTIAL
    assert [each.status for each in report.products] == [Status.DONE, Status.FAILED, Status.DONE]
    assert "audit --heal" in report.products[1].error
    assert table_rows(lake, "P2-USD") == expected_rows(raw, "P2-USD")
    put(raw, 1, 1_000, trades(range(1, 1_001)), product="P1-USD")
    assert run_transform(lake).status is Status.DONE
    assert table_rows(lake, "P1-USD") == expected_rows(raw, "P1-USD")


def test_misfits_are_counted_and_said(lake: Lake) -> None:
    put(lake.raw("coinbase"), 1, 1_000, raw_rows({"trade_id": 1}, {"trade_id": 2, "price": "1e40"}))
    report = run_transform(lake)
    assert (report.products[0].new_rows, report.products[0].quarantined) == (2, 1)
    assert any("unified/quarantine" in line for line in report.remarks())
    assert quarantine_table(lake).snapshot().files()[0].rows == 1


def test_compact_only_takes_nothing(lake: Lake) -> None:
    for lo in (1, 1_001, 2_001):
        fill(lake, [PRODUCT], lo)
        run_transform(lake)
    assert len(unified_table(lake).snapshot().files()) == 3
    fill(lake, [PRODUCT], 3_001)
    report = run_transform(lake, compact_only=True)
    assert (report.products[0].new_rows, report.products[0].merged_files) == (0, 2)
    assert len(unified_table(lake).snapshot().files()) == 1
    assert len(table_rows(lake)) == 3_000


@pytest.mark.parametrize("damaged", [False, True])
def test_rebuilding(lake: Lake, damaged: bool) -> None:
    fill(lake, PRODUCTS[:3])
    run_transform(lake)
    table = unified_table(lake)
    before = table.version()
    if damaged:
        log = Path(table.uri, "_delta_log")
        (log / f"{before:020d}.json").write_text('{"add":')
        with pytest.raises(Exception, match="--rebuild"):
            run_transform(lake)
    report = run_transform(lake, rebuild=True)
    assert report.status is Status.DONE
    assert table.version() == (0 if damaged else before + 1)
    assert [each.new_rows for each in report.products] == [1_000] * 3
    for product in PRODUCTS[:3]:
        assert table_rows(lake, product) == expected_rows(lake.raw("coinbase"), product)


def test_a_rebuild_that_cannot_read_all_leaves_the_table(lake: Lake) -> None:
    fill(lake, PRODUCTS[:3])
    run_transform(lake)
    before = unified_table(lake).snapshot()
    (part,) = lake.raw("coinbase").parts("P1-USD").parts
    Path(lake.location, part.key).write_bytes(b"PAR1 half")
    report = run_transform(lake, rebuild=True)
    assert report.status is Status.FAILED
    after = unified_table(lake).snapshot()
    assert (after.version, after.files()) == (before.version, before.files())


def test_what_cannot_be_meant_is_refused(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(NothingStored):
        run_transform(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    fill(lake, PRODUCTS[:1])
    with pytest.raises(NotInLake):
        run_transform(lake, products=["ETH-USD"])
    for wrong in (
        {"rebuild": True, "compact_only": True},
        {"rebuild": True, "products": [PRODUCTS[0]]},
        {"runner": "ray"},
        {"runner": "dask:nowhere"},
        {"file_mb": 0},
    ):
        with pytest.raises((ConfigurationError, ParameterTypeError)):
            run_transform(lake, **wrong)
    assert not unified_table(lake).exists()


def test_a_pull_brings_the_table_up_to_date_where_asked(lake: Lake) -> None:
    with SimulatedExchange("BTC-USD:2500", "ETH-USD:900", seed=1) as sim:
        summary = run_pull("backfill", sim, lake.location, [PRODUCT], transform=True)
        assert summary.transform is not None
        assert summary.as_json()["transform"]["products"][0]["new_rows"] == 2_500
        assert "transform" not in run_pull("ingest", sim, lake.location, [PRODUCT]).as_json()
        run_pull("ingest", sim, lake.location, [PRODUCT, "ETH-USD"], transform=True)
    raw = lake.raw("coinbase")
    for product in (PRODUCT, "ETH-USD"):
        assert table_rows(lake, product) == expected_rows(raw, product)


def test_a_pull_whose_transform_fails_is_partial_and_keeps_its_trades(lake: Lake) -> None:
    log = Path(unified_table(lake).uri, "_delta_log")
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text("{")
    with SimulatedExchange("BTC-USD:2500", seed=1) as sim:
        summary = run_pull("backfill", sim, lake.location, [PRODUCT], transform=True)
    assert summary.status is Status.PARTIAL
    assert any("--rebuild" in line for line in summary.remarks())
    assert lake.raw("coinbase").totals(PRODUCT)[0] == 2_500


class Workers(SchedulerPlugin):
    """Notes which workers of a cluster ended a task."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def transition(self, key: Any, start: str, finish: str, *args: Any, **facts: Any) -> None:
        if finish == "memory" and facts.get("worker"):
            self.seen.add(facts["worker"])


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_dask_cluster_of_two_processes(lake: Lake) -> None:
    fill(lake, PRODUCTS)
    assert run_transform(lake, runner="dask", workers=2).status is Status.DONE
    for product in PRODUCTS:
        assert table_rows(lake, product) == expected_rows(lake.raw("coinbase"), product)
    fill(lake, PRODUCTS, 1_001)
    workers = Workers()
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        cluster.scheduler.add_plugin(workers)
        report = run_transform(lake, runner=f"dask:{cluster.scheduler_address}", workers=2)
        assert workers.seen == set(cluster.scheduler.workers)
    assert report.status is Status.DONE
    assert len(workers.seen) == 2
    for product in PRODUCTS:
        assert table_rows(lake, product) == expected_rows(lake.raw("coinbase"), product)
