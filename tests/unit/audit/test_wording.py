"""What people read of an audit."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from headrace.audit.report import AuditReport, Healing, ProductAudit, RepairReceipt
from headrace.cli.display import show
from headrace.run.report import Status
from tests.support.audits import PRODUCT, Bench


def report(bench: Bench, *, healing: Healing | None = None) -> AuditReport:
    bench.keep(1, 1_000)
    return AuditReport(
        run="run",
        status=Status.PARTIAL,
        lake="/the/lake",
        deep=False,
        ui_url=None,
        elapsed_s=1.25,
        requests=1,
        products=(bench.audit(2_000),),
        healing=healing,
    )


def test_one_line(bench: Bench) -> None:
    assert report(bench).headline() == (
        "something is missing or wrong (BTC-USD): "
        "footers of 1 part with 1,000 trades, 1 request, 1.2 s"
    )


def test_an_audit_that_did_not_ask_the_exchange_says_so_where_all_is_well(bench: Bench) -> None:
    """A lake that holds what a killed backfill has brought is no complete one."""
    sound = replace(report(bench), status=Status.DONE, products=(bench.audit(1_000),))
    asked, offline = sound, replace(sound, offline=True)
    assert "exchange" not in asked.title() + asked.headline()
    assert "complete and sound as far as stored; the exchange was not asked" in offline.headline()
    assert "the exchange was not asked" in offline.markdown()
    assert offline.as_json() == asked.as_json()


def test_what_is_wrong_is_said_with_its_repair(bench: Bench) -> None:
    first, second = report(bench).remarks()
    assert first == (
        "BTC-USD: missing 1001-2000: 1,000 ids are newer than anything stored "
        "[headrace audit BTC-USD --heal fetches them]"
    )
    assert second.startswith("BTC-USD: checkpoint_absent: ")


def test_the_terminal_shows_a_table_and_the_remarks(bench: Bench) -> None:
    out = io.StringIO()
    show(report(bench), Console(file=out, width=160))
    assert "watermark" in out.getvalue()
    assert "missing 1001-2000" in out.getvalue()


def test_many_findings_are_not_all_spelled_out(bench: Bench) -> None:
    for lo in range(1, 2_000, 20):
        bench.keep(lo, lo + 9)
    reported = report(bench)
    assert len(reported.products[0].findings) > 20
    assert reported.remarks()[-1].endswith("more findings; --json has them all")
    assert len(reported.remarks()) == 21


def test_markdown_tells_before_and_after_and_takes_no_markup_from_outside(bench: Bench) -> None:
    bench.keep(2_001, 2_500)
    before = (bench.audit(3_000),)
    healing = Healing(before, (RepairReceipt(PRODUCT, Status.FAILED, error="<b>*no*</b>"),), ())
    text = report(bench, healing=healing).markdown()
    assert text.index("### Before") < text.index("### Done") < text.index("### After")
    assert "\\<b\\>\\*no\\*\\</b\\>" in text
    assert text.count("| BTC\\-USD |") == 2


def test_an_error_that_many_products_met_is_one_line(bench: Bench) -> None:
    reported = report(bench)
    away = [ProductAudit(name, Status.FAILED, error="the host is away") for name in ("A", "B")]
    acquire_all = ProductAudit("C", Status.FAILED, error="C: its part cannot be read")
    several = replace(reported, products=(*away, acquire_all))
    assert several.remarks() == ["A, B: the host is away", "C: its part cannot be read"]
