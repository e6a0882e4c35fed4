from __future__ import annotations

import pyrate_limiter
import pytest

from headrace.errors import ConfigurationError
from headrace.quota import QuotaConfig, QuotaRate, RatesError, format_rates, parse_rates


@pytest.mark.parametrize(
    ("text", "rates"),
    [
        ("15/s", [(15, 1000)]),
        ("10/s,100/m", [(10, 1000), (100, 60_000)]),
        ("100/minute, 10/sec", [(10, 1000), (100, 60_000)]),
        ("1/500ms", [(1, 500)]),
        ("3 / 2 seconds", [(3, 2000)]),
        ("5000/h", [(5000, 3_600_000)]),
        ("1000/2d", [(1000, 172_800_000)]),
        ("none", []),
        (" None ", []),
    ],
)
def test_reads_rates_shortest_window_first(text: str, rates: list[tuple[int, int]]) -> None:
    assert list(parse_rates(text)) == rates


def test_reads_sequences_of_texts_rates_and_pyrate_rates() -> None:
    mixed = ["100/m", QuotaRate(10, 1000), pyrate_limiter.Rate(4000, pyrate_limiter.Duration.HOUR)]
    assert format_rates(parse_rates(mixed)) == "10/s,100/m,4000/h"


@pytest.mark.parametrize("text", ["15/s", "10/s,100/m", "1/500ms", "3/2s", "none", "1001/1500ms"])
def test_writes_what_it_reads(text: str) -> None:
    assert format_rates(parse_rates(text)) == text


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("0/s", "0/1000ms"),
        ("1/9999999999999d", "than a year"),
        ("9" * 400 + "/s", "more than"),
        ("10/0s", "10/"),
        ("-1/s", "-1/s"),
        ("1.5/s", "1.5/s"),
        ("ten/s", "ten/s"),
        ("10", "'10'"),
        ("10/fortnight", "fortnight"),
        ("", "''"),
        ([], "no rate"),
        ([None], "neither"),
        ("none,10/s", "none"),
        ("10/s,10/s", "two rates over the same time"),
        ("10/s,5/m", "5/m makes 10/s meaningless"),
        ("10/s,1000/m", "1000/m can never be reached under 10/s"),
    ],
)
def test_refuses_what_cannot_be_meant_and_names_it(value: object, named: str) -> None:
    with pytest.raises(RatesError) as caught:
        parse_rates(value)  # type: ignore[arg-type]
    assert named in str(caught.value)
    assert isinstance(caught.value, ConfigurationError)


def test_settings_take_rates_as_text_and_refuse_bad_ones() -> None:
    assert QuotaConfig(name="x", rates="10/s").rates == (QuotaRate(10, 1000),)
    assert QuotaConfig(name="x", rates="none").unlimited
    with pytest.raises(RatesError):
        QuotaConfig(name="x", rates="10/s,5/m")


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a b", ".hidden", "x" * 200])
def test_a_name_never_becomes_a_path(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        QuotaConfig(name=name, rates="10/s")


def test_settings_forbid_what_they_do_not_know() -> None:
    with pytest.raises(ValueError, match="brust"):
        QuotaConfig(name="x", rates="10/s", brust=3)
