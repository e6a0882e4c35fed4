"""Checks side by side: what each says, those that fail, those that hang."""

import threading

import pytest

from headrace.doctor import CHECKS, Check, Finding, Severity, run_checks, runner
from headrace.errors import HeadraceError


def findings(results):
    return {result.check: result for result in results}


def test_each_check_is_reported_in_order(target):
    checks = [
        Check("one", lambda _: [Finding(Severity.OK, "well")]),
        Check("two", lambda _: [Finding(Severity.WARNING, "so so", "mend it")]),
    ]
    first, second = run_checks(checks, target())

    assert (first.check, first.severity) == ("one", Severity.OK)
    assert (second.check, second.severity) == ("two", Severity.WARNING)


def test_the_worst_finding_counts(target):
    said = [Finding(Severity.PROBLEM, "bad"), Finding(Severity.OK, "well")]
    [result] = run_checks([Check("x", lambda _: said)], target())

    assert result.severity is Severity.PROBLEM


def test_an_error_that_we_foresaw_is_a_problem_with_its_hint(target):
    def look(_target):
        yield Finding(Severity.OK, "so far")
        raise HeadraceError("it broke", hint="mend it")

    [result] = run_checks([Check("x", look)], target())
    assert [finding.what for finding in result.findings] == ["so far", "it broke"]
    assert result.findings[1].remedy == "mend it"


def test_a_bug_in_a_check_is_reported_and_hides_no_other(target):
    def broken(_target):
        raise ZeroDivisionError("a bug")

    results = findings(
        run_checks(
            [Check("x", broken), Check("y", lambda _: [Finding(Severity.OK, "well")])], target()
        )
    )
    assert results["x"].severity is Severity.PROBLEM
    assert "a bug" in results["x"].findings[0].what
    assert results["y"].severity is Severity.OK


def test_checks_that_hang_cost_one_limit_together(target, monkeypatch):
    over, now, waits = threading.Event(), [1000.0], []

    def join(_check, timeout):
        waits.append(timeout)
        now[0] += timeout

    monkeypatch.setattr(runner._RunningCheck, "join", join)
    monkeypatch.setattr(runner.time, "monotonic", lambda: now[0])
    checks = [Check(f"hung{n}", lambda _: over.wait(60) and []) for n in range(5)]
    results = list(run_checks(checks, target(), limit_s=30))
    over.set()

    assert waits == [30, 0, 0, 0, 0]
    assert all("no answer within 30 s" in result.findings[0].what for result in results)


def test_names_are_given_once():
    assert len({check.name for check in CHECKS}) == len(CHECKS)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_a_check_makes_nothing_where_nothing_is(check, target, home, tmp_path):
    [result] = run_checks([check], target())

    assert result.findings
    assert not home.exists()
    assert list(tmp_path.iterdir()) == []
