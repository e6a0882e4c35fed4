"""A pull knows a source by its interface: here one with other fields and another page size."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.audit.auditor import run_audit
from headrace.exchange.pages import Outline, Page
from headrace.exchange.planning import Sizing
from headrace.exchange.proof import Check, unchecked
from headrace.exchange.source import Source
from headrace.lake import RawLake, open_lake
from headrace.leases import LeaseStore, SqliteLeases, hold
from headrace.metrics.requests import ClientStats
from headrace.pull.job import ProductJob, pull_progress
from headrace.pull.request import IngestRequest, PullRequest
from headrace.run.report import Status
from headrace.stopping import Ending, StopEvent
from headrace.trades import RAW_SCHEMA
from tests.support.audits import FakeCheckpoints

PRODUCT = "TOY-USD"
SIZING = Sizing(cell_pages=128, in_flight=2, pool=2, pages_per_chunk=3)


class ToySource:
    """Serves fills of its own form, 70 at a time."""

    source = "http://toy.test"
    page_limit = 70

    def __init__(self, ids: Iterable[int]) -> None:
        self.fills = [
            {"seq": i, "at": 1_700_000_000_000 + i, "px": f"{i}.50", "qty": "0.1", "dir": "B"}
            for i in ids
        ]
        self.stats = ClientStats()
        self.ending = Ending(StopEvent())

    def page(
        self,
        product: str,
        after: int | None,
        *,
        limit: int | None = None,
        lane: object = None,
        check: Check = unchecked,
    ) -> Page:
        limit = limit or self.page_limit
        self.stats.sent(product)
        below = [fill for fill in self.fills if after is None or fill["seq"] < after]
        page = Page(product, after, trades_of(below[-limit:]), limit)
        check(page)
        return page

    def outline(self, *_: Any, **__: Any) -> Outline:
        raise AssertionError("every fill can be kept")

    def close(self) -> None:
        """Nothing is open."""


def trades_of(fills: list[dict[str, Any]]) -> pa.RecordBatch:
    at = [fill["at"] * 1_000 for fill in fills]
    columns = [
        pa.array([fill["seq"] for fill in fills], pa.int64()),
        pa.array(at, pa.timestamp("us", tz="UTC")),
        pa.array([fill["px"] for fill in fills], pa.string()),
        pa.array([fill["qty"] for fill in fills], pa.string()),
        pa.array(["buy" if fill["dir"] == "B" else "sell" for fill in fills], pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RAW_SCHEMA)


@pytest.fixture
def lake(tmp_path: Path) -> RawLake:
    return open_lake(tmp_path / "lake").raw("toy")


@pytest.fixture
def leases(tmp_path: Path) -> LeaseStore:
    return SqliteLeases(tmp_path / "leases")


def pull(
    kind: type[PullRequest], source: Source, lake: RawLake, leases: LeaseStore, books: Any
) -> ProductJob:
    request = kind.checked(products=[PRODUCT], lake="here", base_url=source.source, rate="none")
    job = ProductJob(
        PRODUCT,
        request,
        run_id="run",
        client=source,
        lake=lake,
        checkpoints=books,
        leases=leases,
        progress=pull_progress(),
        stop=StopEvent(),
    )
    with hold(leases, job.product_leases.run(request.planner), run_id="run", ttl_s=60) as lease:
        job.prepare(lease)
        for chunk in job.chunks(SIZING):
            job.keep(job.fetch(chunk))
        job.commit(last=True)
    return job


@pytest.mark.parametrize(
    "ids",
    [range(1, 5_001), range(734, 2_900), [i for i in range(1, 9_000) if i % 7 in (0, 3)]],
    ids=["dense", "begins late", "thin"],
)
def test_a_source_of_another_form_goes_through_the_whole_pull(
    lake: RawLake, leases: LeaseStore, ids: Iterable[int]
) -> None:
    ids, books = list(ids), FakeCheckpoints()
    source = ToySource(ids)
    receipt = pull(PullRequest, source, lake, leases, books).receipt()
    assert (receipt.status, receipt.error, receipt.rows) == (Status.DONE, "", len(ids))
    assert lake.read(PRODUCT)["trade_id"].to_pylist() == ids

    later = [ids[-1] + n for n in range(1, 500, 3)]
    source = ToySource([*ids, *later])
    receipt = pull(IngestRequest, source, lake, leases, books).receipt()
    assert (receipt.status, receipt.new_rows) == (Status.DONE, len(later))
    assert lake.read(PRODUCT)["trade_id"].to_pylist() == [*ids, *later]
    assert lake.read(PRODUCT)["price"][0].as_py() == f"{ids[0]}.50"

    found = run_audit(
        lake,
        PRODUCT,
        checkpoints=books,
        client=source,
        known=None,
        pending_since=None,
        deep=True,
        stop=StopEvent(),
    )
    assert (found.status, found.kinds.get("missing", 0)) == (Status.DONE, 0)
    assert found.newest == later[-1]


def test_a_dense_source_is_asked_for_each_of_its_pages_once(
    lake: RawLake, leases: LeaseStore
) -> None:
    source = ToySource(range(1, 70 * 30 + 1))
    pull(PullRequest, source, lake, leases, FakeCheckpoints())
    walked = source.stats.requests
    assert 30 <= walked <= 30 + 12, "each chunk of three grid pages ends within a page of its own"
    assert datetime.now(UTC) > lake.read(PRODUCT)["time"][-1].as_py()
