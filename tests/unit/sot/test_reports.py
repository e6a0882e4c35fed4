"""What the commands of a log say at their end."""

from __future__ import annotations

import pytest

from headrace.run.report import Status
from headrace.sot.reports import SotReport, report_of_verify
from headrace.sot.verify import Mode, SymbolReport, VerifyReport


@pytest.mark.parametrize(
    ("records", "words"),
    [(300, "300 records of 1 symbol are good"), (1, "1 record of 1 symbol is good")],
)
def test_the_verb_agrees_with_the_records(records: int, words: str) -> None:
    found = VerifyReport(Mode.FULL, [SymbolReport(1, records, records + 1)])
    assert report_of_verify("run", "store", found).message == words


def test_a_damage_that_store_and_symbol_both_name_is_one_finding() -> None:
    found = VerifyReport(Mode.FULL, [SymbolReport(1, damage="gone"), SymbolReport(2, 9)], ["gone"])
    report = report_of_verify("run", "store", found)
    assert report.problems == ("gone",)
    assert report.message.endswith("1 symbol is damaged, 1 finding")


def test_a_status_is_in_words() -> None:
    report = SotReport(
        run="run",
        action="write",
        status=Status.RUNNING_ELSEWHERE,
        store="store",
        message="another run writes it",
        elapsed_s=0.0,
    )
    assert report.totals() == "running elsewhere: another run writes it"
