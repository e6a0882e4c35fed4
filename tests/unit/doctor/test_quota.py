"""What a breaker in a phase means for the runs to come."""

from __future__ import annotations

import pytest

from headrace.doctor import Severity
from headrace.doctor.checks.quota import _judged
from headrace.quota.breaker import Phase


@pytest.mark.parametrize(
    ("left_s", "severity", "words"),
    [
        (42.0, Severity.PROBLEM, "the breaker is open for another 42 s, after 1 failure in a row"),
        (0.0, Severity.WARNING, "open until the next request, a probe, after 1 failure in a row"),
    ],
)
def test_an_open_breaker_keeps_runs_from_working_until_its_probe_is_due(
    left_s: float, severity: Severity, words: str
) -> None:
    finding = _judged("api", Phase.OPEN, 1, left_s)
    assert finding.severity is severity
    assert words in finding.what
