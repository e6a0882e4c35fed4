"""Who may begin, before anything is loaded or asked."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.lake.exceptions import LakeUnusable
from headrace.leases import LeaseHeld, LeaseStatus, SqliteLeases, hold
from headrace.pull.admission import admission, summarize_refusal
from headrace.pull.product_leases import ProductLeases
from headrace.pull.request import PullRequest
from headrace.run.report import Status


@pytest.fixture
def leases(tmp_path: Path) -> SqliteLeases:
    return SqliteLeases(tmp_path / "leases")


@pytest.fixture
def lake(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


def request_for(*products: str, lake: str, **more: object):
    fields = {"base_url": "http://127.0.0.1:1", "rate": "10/s", "planner": "backfill", **more}
    return PullRequest.checked(products=list(products), lake=lake, **fields)


def admitted(request, leases):
    return admission(request, leases=str(leases.path.parent), ttl_s=60)


def product_leases_of(leases, product, lake):
    return ProductLeases(leases, "coinbase", product, lake)


def held_by_another(leases, product, lake, *, planner="backfill"):
    return hold(leases, product_leases_of(leases, product, lake).run(planner), run_id="another")


def status(leases, product, lake):
    return leases.state(product_leases_of(leases, product, lake).run("backfill")).status


def test_what_is_free_is_taken_for_the_run_and_given_back(leases, lake):
    with admitted(request_for("BTC-USD", lake=lake), leases) as others:
        assert others == {}
        assert status(leases, "BTC-USD", lake) is LeaseStatus.HELD
        product_leases = product_leases_of(leases, "BTC-USD", lake)
        with product_leases.acquire("backfill", "the-run", ttl_s=60) as lease:
            lease.check()
    assert status(leases, "BTC-USD", lake) is LeaseStatus.FREE


def test_however_product_and_lake_are_spelled(leases, lake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with (
        held_by_another(leases, "BTC-USD", lake),
        admitted(request_for("btc-usd", lake="./x/../lake/"), leases) as others,
    ):
        assert list(others) == ["BTC-USD"]


def test_the_other_kind_of_run_and_another_lake_are_no_hindrance(leases, lake):
    with (
        held_by_another(leases, "BTC-USD", lake, planner="ingest"),
        held_by_another(leases, "BTC-USD", f"{lake}-2"),
        admitted(request_for("BTC-USD", lake=lake), leases) as others,
    ):
        assert others == {}


def standings(leases, products, lake):
    return [status(leases, product, lake).value for product in products]


def test_products_whose_turn_comes_later_are_left_to_the_run_that_comes_first(leases, lake):
    products = ("A-USD", "B-USD", "C-USD")
    with admitted(request_for(*products, lake=lake, workers=2), leases) as others:
        assert others == {}
        assert standings(leases, products, lake) == ["held", "held", "free"]


@pytest.mark.parametrize(
    ("held", "found"),
    [("AB", "AB"), ("AC", "A"), ("ABD", "AB"), ("ABC", "ABC"), ("ABCD", "ABCD"), ("BCD", "B")],
)
def test_they_are_looked_at_where_nothing_can_begin_up_to_the_first_that_can(
    leases, lake, held, found
):
    request = request_for(*(f"{name}-USD" for name in "ABCD"), lake=lake, workers=2)
    with ExitStack() as others_at_work:
        for name in held:
            others_at_work.enter_context(held_by_another(leases, f"{name}-USD", lake))
        with admitted(request, leases) as others:
            assert list(others) == [f"{name}-USD" for name in found]


def test_a_dry_run_writes_nothing_and_sends_no_request(leases, lake):
    with (
        held_by_another(leases, "BTC-USD", lake),
        admitted(request_for("BTC-USD", lake=lake, dry_run=True), leases) as others,
    ):
        assert others == {}


def test_where_a_saved_lake_is_only_the_run_can_tell(leases):
    with admitted(request_for("BTC-USD", lake="block:ours"), leases) as others:
        assert others == {}
    assert not leases.path.exists()


def test_a_lake_that_cannot_be_is_said_before_anything_is_started(leases):
    request = request_for("BTC-USD", lake="ftp://somewhere")
    with pytest.raises(LakeUnusable, match="ftp"), admitted(request, leases):
        pass


def test_the_summary_of_a_run_that_did_not_begin_names_every_holder(leases, lake):
    request = request_for("A-USD", "B-USD", lake=lake)
    with ExitStack() as others_at_work:
        for product in request.products:
            others_at_work.enter_context(held_by_another(leases, product, lake))
        with admitted(request, leases) as others:
            assert all(isinstance(other, LeaseHeld) for other in others.values())
            summary = summarize_refusal(request, others, elapsed_s=0.25)
    said = summary.as_json()
    assert (said["run"], said["status"], said["requests"]) == (None, "running_elsewhere", 0)
    assert said["quota"] == {"name": "127.0.0.1:1", "rates": "10/s", "used_share": None}
    assert [each.status for each in summary.products] == [Status.RUNNING_ELSEWHERE] * 2
    assert all("run another" in each.error for each in summary.products)


def test_the_exchange_may_be_a_saved_one(leases, lake):
    request = request_for("A-USD", lake=lake, base_url="block:theirs")
    with held_by_another(leases, "A-USD", lake), admitted(request, leases) as others:
        assert summarize_refusal(request, others, elapsed_s=0).costs.quota.name == "block:theirs"
