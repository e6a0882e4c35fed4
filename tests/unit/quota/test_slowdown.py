"""What a slow-down says in the log: one line when it begins and one when it is over."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.quota import Gate, QuotaConfig, SlowdownChange, open_gate


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    with open_gate(tmp_path, QuotaConfig(name="api", rates="1000/s")) as opened:
        yield opened


def answer(gate: Gate, status: int, times: int = 1) -> None:
    for _ in range(times):
        with gate.admit() as admission:
            admission.sending()
            admission.answered(status)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "quota" in record.name]


def test_a_wall_of_429s_is_two_lines_with_counts(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    answer(gate, 200, 30)
    answer(gate, 429, 12)
    answer(gate, 200, 400)
    begin, end = lines(caplog)
    assert begin == "quota api: 429: slowing down to 77 %"
    assert end.startswith("quota api: full speed again after ")
    assert " % at the slowest); 429 was the answer to 12 of " in end


def test_a_lone_429_is_no_line(gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        for _ in range(4):
            answer(gate, 200, 60)
            answer(gate, 429)
        answer(gate, 200, 60)
    assert lines(caplog) == []


def test_listeners_hear_of_a_wall_and_of_its_end_but_not_of_a_lone_429(gate: Gate) -> None:
    heard: list[SlowdownChange] = []
    gate.on_slowdown(heard.append)
    answer(gate, 200, 30)
    answer(gate, 429)
    answer(gate, 200, 60)
    assert heard == []
    answer(gate, 429, 12)
    answer(gate, 200, 400)
    begin, end = heard
    assert (begin.name, begin.over, end.over, end.throttled) == ("api", False, True, 12)
    assert begin.percent < 84


def test_the_end_is_heard_of_by_a_process_that_has_seen_only_the_rest(
    gate: Gate, tmp_path: Path
) -> None:
    answer(gate, 200, 30)
    answer(gate, 429, 12)
    while gate.status().book.slowdown > 1.15:
        answer(gate, 200)
    heard: list[SlowdownChange] = []
    with open_gate(tmp_path, gate.config) as later:
        later.on_slowdown(heard.append)
        answer(later, 200, 400)
    assert [change.over for change in heard] == [True]


def test_what_is_slow_at_the_end_says_so(gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    answer(gate, 429, 5)
    gate.close()
    assert lines(caplog)[1].startswith("quota api: still slow at the end, after 0 s (")
