"""The server's rate limits, on a clock of the test's own."""

from __future__ import annotations

from email.utils import parsedate_to_datetime

import pytest

from headrace.sim import SlidingWindow, SpecError, TokenBucket
from headrace.sim.limits import Gate, parse_bucket, parse_window

WALL_S = 1_700_000_000.0


def admitted(gate: Gate, moments: list[float]) -> list[bool]:
    return [gate.refuse(at, WALL_S + at) is None for at in moments]


def test_no_limit_admits_everything() -> None:
    assert all(admitted(Gate([]), [0.0] * 1000))


def test_the_bucket_starts_full_and_refills_lazily() -> None:
    gate = Gate([TokenBucket(rate_per_s=10, burst=15)])
    assert admitted(gate, [0.0] * 17) == [True] * 15 + [False] * 2
    assert admitted(gate, [0.05, 0.1, 0.1]) == [False, True, False]
    assert admitted(gate, [100.0] * 16) == [True] * 15 + [False]


def test_the_bucket_admits_a_steady_stream_at_its_rate_for_ever() -> None:
    gate = Gate([TokenBucket(rate_per_s=10, burst=1)])
    assert all(admitted(gate, [n / 10 for n in range(100_000)]))


def test_the_bucket_counts_on_a_clock_that_does_not_start_at_zero() -> None:
    gate = Gate([TokenBucket(rate_per_s=10, burst=2)])
    assert admitted(gate, [1e6, 1e6, 1e6]) == [True, True, False]


def test_the_window_is_strict_and_half_open() -> None:
    gate = Gate([SlidingWindow(requests=3, per_s=1)])
    assert admitted(gate, [0.0, 0.5, 0.9, 0.999, 1.0, 1.4]) == [
        True,
        True,
        True,
        False,
        True,
        False,
    ]


def test_the_window_may_count_refused_requests() -> None:
    gate = Gate([SlidingWindow(requests=1, per_s=1, count_refused=True)])
    assert admitted(gate, [0.0, 0.9, 1.5, 2.6]) == [True, False, False, True]


def test_a_request_that_one_limit_refuses_uses_no_other() -> None:
    gate = Gate([TokenBucket(rate_per_s=1, burst=2), SlidingWindow(requests=1, per_s=0.5)])
    assert admitted(gate, [0.0, 0.1, 0.2, 0.5]) == [True, False, False, True]


@pytest.mark.parametrize(("form", "expected"), [("absent", None), ("seconds", "7"), ("zero", "0")])
def test_retry_after_has_the_wanted_form(form: str, expected: str | None) -> None:
    gate = Gate([SlidingWindow(requests=1, per_s=6.5, retry_after=form)])
    assert gate.refuse(0.0, WALL_S) is None
    refusal = gate.refuse(0.0, WALL_S)
    assert refusal is not None
    assert refusal.status == 429
    assert refusal.body == b'{"message":"Public rate limit exceeded"}'
    assert refusal.headers.get("Retry-After") == expected


def test_retry_after_may_be_a_date() -> None:
    gate = Gate([SlidingWindow(requests=1, per_s=10, retry_after="date")])
    gate.refuse(0.0, WALL_S)
    refusal = gate.refuse(4.0, WALL_S + 4)
    assert refusal is not None
    assert parsedate_to_datetime(refusal.headers["Retry-After"]).timestamp() == WALL_S + 10


def test_the_longest_wait_decides_what_is_said() -> None:
    slow = SlidingWindow(
        requests=1, per_s=60, retry_after="seconds", message="Slow rate limit exceeded"
    )
    gate = Gate([SlidingWindow(requests=1, per_s=1, retry_after="seconds"), slow])
    gate.refuse(0.0, WALL_S)
    refusal = gate.refuse(0.0, WALL_S)
    assert refusal is not None
    assert refusal.headers["Retry-After"] == "60"
    assert b"Slow rate" in refusal.body


def test_rates_are_read_as_written() -> None:
    assert parse_bucket("10/s") == TokenBucket(rate_per_s=10, burst=15)
    assert parse_bucket("90/m", burst=2).rate_per_s == 1.5
    assert parse_window("100/60s") == SlidingWindow(requests=100, per_s=60)
    assert parse_window("7/h").per_s == 3600
    assert parse_window("5/0.5s").per_s == 0.5


@pytest.mark.parametrize("text", ["10", "ten/s", "10/d", "0/s", "-1/s", "10/0s", "", "10/.s"])
def test_rates_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(SpecError):
        parse_bucket(text)


def test_a_window_holds_whole_requests() -> None:
    with pytest.raises(SpecError, match="whole"):
        parse_window("1.5/s")
