"""What was traded within the lag is pending; what is older is missing, wherever it lies."""

from __future__ import annotations

from datetime import datetime

import pytest

from headrace.audit.auditor import run_audit
from headrace.audit.coverage import find_pending
from headrace.audit.report import ProductAudit
from headrace.coverage import EMPTY, IntervalSet
from headrace.run.report import Status
from headrace.wire.exceptions import ServerError
from tests.lake_samples import trades
from tests.support.audits import PRODUCT, Bench, exchange, kinds, only, rows
from tests.support.exchange import FakeClient

NEWEST = 9_000


def traded_at(trade_id: int) -> datetime:
    """When the exchange's trade with this id was made."""
    return trades([trade_id])["time"][0].as_py()


def audit(
    bench: Bench, since: int | None, client: FakeClient | None = None
) -> tuple[ProductAudit, FakeClient]:
    """Audit with trades from the one with the id `since` on within the lag."""
    client = client or exchange(NEWEST)
    found = run_audit(
        bench.raw,
        PRODUCT,
        checkpoints=bench.checkpoints,
        client=client,
        pending_since=None if since is None else traded_at(since),
    )
    return found, client


def keep(bench: Bench, *ranges: tuple[int, int]) -> None:
    for lo, hi in ranges:
        bench.keep(lo, hi)
    bench.save_checkpoint()


def test_a_young_tail_is_pending_and_costs_one_request(bench: Bench) -> None:
    keep(bench, (1, 5_000), (5_001, 8_200))
    found, client = audit(bench, since=8_000)
    assert (found.status, kinds(found)) == (Status.DONE, ["pending"])
    assert only(found, "pending").range == (8_201, NEWEST)
    assert (found.counted.missing, found.counted.watermark) == (EMPTY, 8_200)
    assert found.counted.pending.ranges == ((8_201, NEWEST),)
    assert len(client.cursors) == 2


def test_without_a_lag_the_same_tail_is_missing(bench: Bench) -> None:
    keep(bench, (1, 5_000), (5_001, 8_200))
    found, client = audit(bench, since=None)
    assert (found.status, kinds(found), len(client.cursors)) == (Status.PARTIAL, ["missing"], 1)


def test_what_an_ingest_should_have_brought_by_now_is_missing(bench: Bench) -> None:
    keep(bench, (1, 5_000))
    found, client = audit(bench, since=8_500)
    assert found.status is Status.PARTIAL
    assert found.counted.missing.ranges == ((5_001, 8_499),)
    assert found.counted.pending.ranges == ((8_500, NEWEST),)
    assert len(client.cursors) <= 6


def test_an_old_gap_stays_missing_beside_a_young_tail(bench: Bench) -> None:
    keep(bench, (1, 1_000), (2_001, 5_000), (5_001, 8_200))
    found, _ = audit(bench, since=8_000)
    assert found.status is Status.PARTIAL
    assert found.counted.missing.ranges == ((1_001, 2_000),)
    assert found.counted.pending.ranges == ((8_201, NEWEST),)


def test_a_young_gap_is_as_pending_as_a_young_tail(bench: Bench) -> None:
    """An ingest at work stores its chunks in any order."""
    keep(bench, (1, 5_000), (6_001, 7_000))
    found, _ = audit(bench, since=4_000)
    assert (found.status, kinds(found)) == (Status.DONE, ["pending", "pending"])
    assert found.counted.pending.ranges == ((5_001, 6_000), (7_001, NEWEST))


def test_nothing_is_asked_where_nothing_is_missing(bench: Bench) -> None:
    keep(bench, (1, 5_000), (5_001, NEWEST))
    found, client = audit(bench, since=1)
    assert (found.status, found.findings, len(client.cursors)) == (Status.DONE, (), 1)


def test_an_exchange_that_cannot_say_how_old_they_are_leaves_them_missing(bench: Bench) -> None:
    keep(bench, (1, 5_000), (5_001, 8_200))
    found, _ = audit(bench, since=8_000, client=OnlyTheNewest(range(1, NEWEST + 1), rows=rows))
    assert found.status is Status.PARTIAL
    assert found.counted.missing.ranges == ((8_201, NEWEST),)
    assert "how old the missing trades are is not known" in found.error


class OnlyTheNewest(FakeClient):
    def page(self, product, after, **options):
        if after is not None:
            raise ServerError("down", product=product, cursor=after, status=503)
        return super().page(product, after, **options)


@pytest.mark.parametrize("since", [1, 2, 999, 1_000, 1_001, 4_321, 8_999, 9_000, 9_001, 20_000])
@pytest.mark.parametrize(
    "missing",
    [
        ((1, 9_000),),
        ((9_000, 9_000),),
        ((1, 1), (4_000, 4_321), (8_000, 9_000)),
        ((1, 999), (1_001, 1_001), (1_003, 8_999)),
    ],
)
def test_the_border_lies_where_the_time_says(missing: tuple, since: int) -> None:
    ids = IntervalSet(missing)
    found = find_pending(exchange(NEWEST), PRODUCT, ids, traded_at(since))
    assert found == ids & IntervalSet.of((since, 30_000))


def test_nothing_is_pending_of_nothing() -> None:
    client = FakeClient(range(1, 10))
    assert find_pending(client, PRODUCT, EMPTY, traded_at(1)) == EMPTY
    assert client.cursors == []
