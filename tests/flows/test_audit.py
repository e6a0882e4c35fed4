"""An audit says what is missing and what is wrong; a healing makes it whole, with few requests."""

from __future__ import annotations

from contextvars import copy_context
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest
from support.exchange import rows_of
from support.pulls import assert_lake_equals_source, run_backfill

from headrace.audit.report import AuditReport, ProductAudit
from headrace.errors import ConfigurationError, HeadraceError
from headrace.evidence.key_files import KeyFile
from headrace.evidence.keys import make_key
from headrace.lake import open_lake
from headrace.lake.exceptions import LakeUnusable
from headrace.products.choice import NothingStored, NotInLake
from headrace.run.report import Status
from headrace.sim import Fault, Respond, SimulatedExchange
from headrace.sot.anchors.exceptions import AnchorsMissing

pytestmark = pytest.mark.flows


def run_audit(sim: SimulatedExchange | str, lake: Path | str, *products: str, **parameters: Any):
    """The report of the flow, as a deployment runs it; its errors are raised."""
    from flows.audit import audit

    url = sim if isinstance(sim, str) else sim.url
    state = audit(
        **{
            "products": list(products),
            "rate": "none",
            "lake": str(lake),
            "base_url": url,
            "return_state": True,
            **parameters,
        }
    )
    outcome = state.result(raise_on_failure=False)
    if isinstance(outcome, BaseException):
        raise outcome
    assert isinstance(outcome, AuditReport)
    return outcome


def of_product(report: AuditReport, product: str) -> ProductAudit:
    return next(each for each in report.products if each.product == product)


def folder(lake: Path, product: str) -> Path:
    return lake / "raw" / "trades" / "exchange=coinbase" / f"product={product}"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def test_a_complete_lake_and_what_an_audit_costs(lake: Path) -> None:
    with SimulatedExchange("BTC-USD:5300", "THIN-USD:9000,density=0.2", seed=3) as sim:
        run_backfill(sim, lake, ["BTC-USD", "THIN-USD"])
        sim.reset_log()
        report = run_audit(sim, lake)
        assert (report.status, report.requests, sim.stats()["requests"]) == (Status.DONE, 2, 2)
        assert [each.product for each in report.products] == ["BTC-USD", "THIN-USD"]
        assert of_product(report, "BTC-USD").counted.rows == 5_300
        deep = run_audit(sim, lake, "btc-usd", deep=True, offline=True)
        assert (deep.status, deep.requests, len(deep.products)) == (Status.DONE, 0, 1)
        sim.grow("BTC-USD", 40)
        behind = run_audit(sim, lake, "BTC-USD")
        assert behind.status is Status.PARTIAL
        assert of_product(behind, "BTC-USD").counted.missing.ranges == ((5_301, 5_340),)
        sim.reset_log()
        allowed = run_audit(sim, lake, "BTC-USD", lag="1h")
        assert (allowed.status, sim.stats()["requests"]) == (Status.DONE, 2)
        assert of_product(allowed, "BTC-USD").counted.pending.ranges == ((5_301, 5_340),)


def test_healing_fetches_what_is_missing_and_repairs_the_rest(lake: Path) -> None:
    with SimulatedExchange("BTC-USD:9000", "ETH-USD:700", seed=5) as sim:
        fault = sim.add_fault(Fault(action=Respond(status=400), cursor=4001))
        run_backfill(sim, lake, ["BTC-USD", "ETH-USD"], pages_per_chunk=1)
        sim.remove_fault(fault)
        part = max(folder(lake, "BTC-USD").glob("part-*.parquet"))
        whole = part.read_bytes()
        part.write_bytes(whole[:-200])
        found = of_product(run_audit(sim, lake, offline=True), "BTC-USD")
        assert found.counted.missing.ranges == ((3_001, 4_000),)
        assert found.kinds["unreadable"] == 1
        sim.reset_log()

        report = run_audit(sim, lake, heal=True)

        assert report.status is Status.DONE
        assert report.healing is not None
        assert of_product(report, "BTC-USD").counted.missing.ranges == ()
        assert report.healing.before[0].status is Status.PARTIAL
        assert report.requests == sim.stats()["requests"]
        (fetched,) = report.healing.fetched
        damaged = int(part.name[18:30]) - int(part.name[5:17]) + 1
        assert (fetched.product, fetched.new_rows) == ("BTC-USD", 1_000 + damaged)
        # The newest ids of two products, the survey of one, and the pages that are missing.
        assert sim.stats()["requests"] <= 2 + 2 + 1 + -(-damaged // 1_000)
        assert_lake_equals_source(lake, sim, "BTC-USD")
        (aside,) = (lake / "_headrace/aside/exchange=coinbase/product=BTC-USD").iterdir()
        assert aside.read_bytes() == whole[:-200]
        assert run_audit(sim, lake, deep=True).status is Status.DONE


@pytest.mark.slow
def test_two_healings_at_once_do_no_harm(lake: Path) -> None:
    with SimulatedExchange("BTC-USD:6000", seed=5) as sim:
        run_backfill(sim, lake, ["BTC-USD"], pages_per_chunk=1)
        victim = min(folder(lake, "BTC-USD").glob("part-*.parquet"))
        victim.write_bytes(b"")
        reports: list[AuditReport] = []

        def heal() -> None:
            reports.append(run_audit(sim, lake, heal=True))

        # A thread begins with an empty context, in which Prefect would not know its API.
        runs = [Thread(target=copy_context().run, args=(heal,)) for _ in range(2)]
        for run in runs:
            run.start()
        for run in runs:
            run.join()
        assert len(reports) == 2
        assert Status.DONE in {report.status for report in reports}
        assert {report.status for report in reports} <= {Status.DONE, Status.RUNNING_ELSEWHERE}
        assert_lake_equals_source(lake, sim, "BTC-USD")
        assert run_audit(sim, lake, deep=True).status is Status.DONE


def test_a_product_that_grows_is_whole_up_to_what_was_seen_first(lake: Path) -> None:
    with SimulatedExchange("BTC-USD:3000,growth_per_request=10", seed=5) as sim:
        run_backfill(sim, lake, ["BTC-USD"], to_id=2_000)
        healed = run_audit(sim, lake, heal=True)
        assert healed.status is Status.DONE
        assert healed.healing is not None
        assert healed.healing.repaired == ()
        newest = of_product(healed, "BTC-USD").newest
        assert newest < sim.newest_id("BTC-USD")


def test_what_the_exchange_refuses_is_reported_per_product(lake: Path) -> None:
    with SimulatedExchange("BTC-USD:800", "GONE-USD:700", seed=5) as sim:
        run_backfill(sim, lake, ["BTC-USD", "GONE-USD"])
        sim.add_fault(Fault(action=Respond(status=404), product="GONE-USD"))
        report = run_audit(sim, lake)
        assert report.status is Status.PARTIAL
        assert of_product(report, "BTC-USD").status is Status.DONE
        assert "404" in of_product(report, "GONE-USD").error
        assert of_product(report, "GONE-USD").counted.rows == 700


def test_the_state_of_a_refused_run_has_the_words_of_the_error(lake: Path) -> None:
    """Alarms and lists of runs show its message."""
    from flows.audit import audit

    state = audit([], lake=str(lake), offline=True, return_state=True)
    assert (state.name, state.message) == ("Failed", str(state.result(raise_on_failure=False)))
    assert str(state.message).startswith("there are no trades in")


def test_what_cannot_be_audited_is_refused_and_nothing_is_made(lake: Path) -> None:
    with SimulatedExchange("BTC-USD:100") as sim:
        with pytest.raises(NothingStored, match="there are no trades in"):
            run_audit(sim, lake)
        assert not lake.exists()
        lake.write_text("a file")
        with pytest.raises(LakeUnusable, match="Not a directory"):
            run_audit(sim, lake)
        lake.unlink()
        run_backfill(sim, lake, ["BTC-USD"])
        sim.reset_log()
        with pytest.raises(NotInLake, match=r"holds nothing of NOPE-USD.*It holds BTC-USD"):
            run_audit(sim, lake, "NOPE-USD")
        with pytest.raises(ConfigurationError, match="exclude each other"):
            run_audit(sim, lake, heal=True, offline=True)
        assert sim.stats()["requests"] == 0
    offline = run_audit("http://127.0.0.1:1", lake, offline=True)
    assert (offline.status, "the exchange was not asked" in offline.headline()) == (
        Status.DONE,
        True,
    )
    with pytest.raises(HeadraceError, match=r"127\.0\.0\.1"):
        run_audit("http://127.0.0.1:1", lake)


def test_an_anchor_that_holds_no_head_is_no_proof(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_SIGNING_KEY", str(tmp_path / "key.pem"))
    make_key(KeyFile(tmp_path / "key.pem"), now=datetime.now(UTC))
    with SimulatedExchange("BTC-USD:100") as sim:
        run_backfill(sim, lake, ["BTC-USD"])
    anchors = tmp_path / "heads.jsonl"
    known = {"offline": True, "anchors": str(anchors)}
    with pytest.raises(AnchorsMissing):
        run_audit("http://127.0.0.1:1", lake, **known)
    assert not anchors.exists()
    anchors.touch()
    empty = run_audit("http://127.0.0.1:1", lake, **known)
    assert empty.status is Status.PARTIAL
    assert "holds no head of the lake" in empty.markdown()
    anchors.unlink()
    first = run_audit("http://127.0.0.1:1", lake, sign=True, **known)
    assert first.status is Status.DONE, first.markdown()
    assert run_audit("http://127.0.0.1:1", lake, **known).status is Status.DONE


@pytest.mark.parametrize(("status", "heal"), [(503, False), (403, True)])
def test_an_exchange_that_answers_nothing_ends_the_audit_once_with_one_message(
    lake: Path, monkeypatch: pytest.MonkeyPatch, status: int, *, heal: bool
) -> None:
    monkeypatch.setenv("HEADRACE_BREAKER_COOLDOWN_S", "0.3")
    raw, page = open_lake(lake).raw("coinbase"), rows_of(list(range(1, 1001)))
    products = [f"P{number}-USD" for number in range(9)]
    for product in products:
        rows = pa.Table.from_batches([page])
        raw.write(product, 1, 1000, rows, source="127.0.0.1", fetched_at=datetime.now(UTC))
    with SimulatedExchange(*(f"{product}:1000" for product in products)) as sim:
        sim.add_fault(Fault(action=Respond(status=status), endpoint="any"))
        report = run_audit(sim, lake, *products, workers=6, outage_limit_s=1, heal=heal)
        asked = sim.stats()["requests"]
    assert report.status is Status.FAILED
    causes = [line for line in report.remarks() if "outage limit" in line or "in a row" in line]
    # A healing says it of the repairs, too, that were not begun.
    assert 1 <= len(causes) <= 1 + heal
    assert causes[-1].count("-USD") >= len(products) - 6
    # Five, what was in flight, and the probes of a second.
    assert asked <= 5 + 6 + 4
