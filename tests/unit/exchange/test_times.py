"""Times as exchanges write them."""

from datetime import UTC, datetime

import pytest

from headrace.exchange.pages import parse_times
from headrace.exchange.times import parse_time

FORMS = [
    ("2020-03-20T00:36:59.860Z", (36, 59, 860_000)),
    ("2020-03-20T00:36:05.77Z", (36, 5, 770_000)),
    ("2020-03-20T00:36:28Z", (36, 28, 0)),
    ("2020-03-20T00:36:28.12345Z", (36, 28, 123_450)),
    ("2020-03-20T00:36:28.123456Z", (36, 28, 123_456)),
    ("2020-03-20T00:36:28.123456789Z", (36, 28, 123_456)),
    ("2020-03-20T00:36:28.5+00:00", (36, 28, 500_000)),
    ("2020-03-20T00:36:28.5+00", (36, 28, 500_000)),
    ("2020-03-20T01:36:28.5+01:00", (36, 28, 500_000)),
    ("2020-03-19T17:36:28.5-07:00", (36, 28, 500_000)),
    ("2020-03-20T00:36:60Z", (37, 0, 0)),
]


@pytest.mark.parametrize(("text", "expected"), FORMS)
def test_every_form_is_exact_alone_and_in_a_column(text, expected):
    minute, second, microsecond = expected
    moment = datetime(2020, 3, 20, 0, minute, second, microsecond, UTC)
    assert parse_time(text) == moment
    assert parse_times([text, "2020-03-20T00:00:00Z"])[0].as_py() == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2020-03-20",
        "2020-03-20T00:36:28",
        "yesterday",
        "2020-13-01T00:00:00Z",
        "2020-03-20T00:36:61Z",
        "2020-02-30T00:00:00Z",
        "1584664588",
        "2020-03-20T00:36:28+99:99",
        "0001-01-01T00:00:00+14:00",
    ],
)
def test_what_is_no_time_with_a_zone_is_refused_with_its_place(text):
    with pytest.raises(ValueError, match="time"):
        parse_time(text)
    with pytest.raises(ValueError, match="time") as refused:
        parse_times(["2020-03-20T00:00:00Z", text])
    assert refused.value.args[1] == 1


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles", "Asia/Kolkata"])
def test_the_machines_zone_does_not_matter(zone, monkeypatch):
    import time

    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        # The hour that occurs twice when daylight saving time ends in Los Angeles.
        early, late = parse_times(["2024-11-03T08:30:00Z", "2024-11-03T09:30:00.5Z"]).to_pylist()
        assert (late - early).total_seconds() == 3600.5
        assert parse_time("2024-11-03T08:30:00.1234567Z").hour == 8
    finally:
        monkeypatch.undo()
        time.tzset()
