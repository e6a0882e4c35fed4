"""Checks side by side: what each says, those that fail, those that hang."""

import threading
import time

import pytest

from headrace.doctor import CHECKS, Check, Finding, Severity, examine
from headrace.errors import HeadraceError


def findings(looked):
    return {result.check: result for result in looked}


def test_each_check_is_reported_in_order(examined):
    checks = [
        Check("one", lambda _: [Finding(Severity.OK, "well")]),
        Check("two", lambda _: [Finding(Severity.WARNING, "so so", "mend it")]),
    ]
    first, second = examine(checks, examined())

    assert (first.check, first.severity) == ("one", Severity.OK)
    assert (second.check, second.severity) == ("two", Severity.WARNING)


def test_the_worst_finding_counts(examined):
    said = [Finding(Severity.PROBLEM, "bad"), Finding(Severity.OK, "well")]
    [looked] = examine([Check("x", lambda _: said)], examined())

    assert looked.severity is Severity.PROBLEM


def test_an_error_that_we_foresaw_is_a_problem_with_its_hint(examined):
    def look(_examined):
        yield Finding(Severity.OK, "so far")
        raise HeadraceError("it broke", hint="mend it")

    [looked] = examine([Check("x", look)], examined())
    assert [finding.what for finding in looked.findings] == ["so far", "it broke"]
    assert looked.findings[1].remedy == "mend it"


def test_a_bug_in_a_check_is_told_and_hides_no_other(examined):
    def broken(_examined):
        raise ZeroDivisionError("a bug")

    looked = findings(
        examine(
            [Check("x", broken), Check("y", lambda _: [Finding(Severity.OK, "well")])], examined()
        )
    )
    assert looked["x"].severity is Severity.PROBLEM
    assert "a bug" in looked["x"].findings[0].what
    assert looked["y"].severity is Severity.OK


def test_checks_that_hang_cost_one_limit_together(examined):
    over = threading.Event()
    checks = [Check(f"hung{n}", lambda _: over.wait(60) and []) for n in range(5)]
    began = time.monotonic()
    looked = list(examine([*checks, CHECKS[0]], examined(), limit_s=0.5))
    took_s = time.monotonic() - began
    over.set()

    assert took_s < 3
    assert all("no answer within 0.5 s" in result.findings[0].what for result in looked[:5])
    assert looked[5].severity is Severity.OK


def test_names_are_given_once():
    assert len({check.name for check in CHECKS}) == len(CHECKS)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_a_check_makes_nothing_where_nothing_is(check, examined, home, tmp_path):
    [looked] = examine([check], examined())

    assert looked.findings
    assert not home.exists()
    assert list(tmp_path.iterdir()) == []
