from __future__ import annotations

import pytest

from headrace.quota.feedback import asked_pause_s, pause_s, retry_after_s

NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("3", 3.0),
        ("0", 0.0),
        ("-5", 0.0),
        ("Tue, 14 Nov 2023 22:13:30 GMT", 10.0),
        ("Tue, 14 Nov 2023 22:13:00 GMT", 0.0),
        ("soon", None),
        ("inf", None),
        ("1e999", None),
        ("nan", None),
        ("5, 10", 5.0),
        ("Tue, 14 Nov 2023 22:13:30 -0000", 10.0),
        ("Tue, 14 Nov 2023 22:13:30 +99999999999999", None),
        ("Tue, 14 Nov 99999 22:13:30 GMT", None),
        ("1e300", 366 * 86_400.0),
    ],
)
def test_reads_retry_after(value: str, seconds: float | None) -> None:
    assert retry_after_s({"Retry-After": value}, NOW) == seconds


def test_no_retry_after_says_nothing() -> None:
    assert retry_after_s({}, NOW) is None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"RateLimit-Remaining": "0", "RateLimit-Reset": "7"}, 7.0),
        ({"x-ratelimit-remaining": "0", "X-RateLimit-Reset": str(NOW + 5)}, 5.0),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(NOW - 5)}, 0.0),
        ({"RateLimit-Remaining": "1", "RateLimit-Reset": "7"}, 0.0),
        ({"RateLimit-Remaining": "0"}, 0.0),
        ({"RateLimit-Remaining": "none", "RateLimit-Reset": "7"}, 0.0),
        ({"RateLimit-Remaining": "0", "RateLimit-Reset": "inf"}, 0.0),
        ({"RateLimit-Remaining": "nan", "RateLimit-Reset": "7"}, 0.0),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str((NOW + 5) * 1000)}, 5.0),
        ({"RateLimit-Remaining": "0", "RateLimit-Reset": "1e300"}, 366 * 86_400.0),
        ({}, 0.0),
    ],
)
def test_an_empty_quota_asks_for_a_pause(headers: dict[str, str], seconds: float) -> None:
    assert pause_s(headers, NOW) == seconds


@pytest.mark.parametrize(
    ("status", "known", "headers", "seconds"),
    [
        (429, None, {"Retry-After": "3"}, 3.0),
        (503, None, {"Retry-After": "3"}, 3.0),
        (200, None, {"Retry-After": "3"}, 0.0),
        (429, 5.0, {"Retry-After": "3"}, 5.0),
        (429, float("inf"), None, 0.0),
        (200, None, {"RateLimit-Remaining": "0", "RateLimit-Reset": "7"}, 7.0),
        (429, 2.0, {"RateLimit-Remaining": "0", "RateLimit-Reset": "7"}, 7.0),
    ],
)
def test_the_longest_pause_asked_for_counts(
    status: int, known: float | None, headers: dict[str, str] | None, seconds: float
) -> None:
    assert asked_pause_s(status, known, headers, NOW) == seconds
