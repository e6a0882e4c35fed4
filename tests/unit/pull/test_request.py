"""What a run may be asked, what is refused, and that the refusal names what is wrong."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigurationError
from headrace.pull.request import MAX_IN_FLIGHT, PullRequest, parse_moment, parse_span

COMPLETE = {"products": ["BTC-USD"], "lake": "lake", "base_url": "http://host", "rate": "10/s"}


def asked(**fields):
    return PullRequest.checked(**{**COMPLETE, **fields})


def refusal(**fields) -> str:
    with pytest.raises(ConfigurationError) as refused:
        asked(**fields)
    return str(refused.value)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("90s", timedelta(seconds=90)),
        ("15m", timedelta(minutes=15)),
        ("1h", timedelta(hours=1)),
        ("7d", timedelta(days=7)),
        ("2w", timedelta(weeks=2)),
        (" 1h ", timedelta(hours=1)),
    ],
)
def test_spans(text, span):
    assert parse_span(text) == span
    assert asked(last=text).last == span


@pytest.mark.parametrize("text", ["soon", "1", "h", "0h", "-1h", "1.5h", "1H", "1h30m", " ", "１d"])
def test_what_is_no_span_is_refused_with_an_example(text):
    said = refusal(last=text)
    assert said.startswith("last: ")
    assert repr(text) in said
    assert "1h" in said


@pytest.mark.parametrize("text", ["40000d", "9999999999w", "99999999999999999999d"])
def test_a_span_longer_than_any_history_is_refused(text):
    assert "longer than any history" in refusal(last=text)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-03-10", datetime(2024, 3, 10, tzinfo=UTC)),
        ("2024-11-03 01:30", datetime(2024, 11, 3, 1, 30, tzinfo=UTC)),
        ("2024-11-03T01:30:05", datetime(2024, 11, 3, 1, 30, 5, tzinfo=UTC)),
        ("2024-11-03T01:30:05.25", datetime(2024, 11, 3, 1, 30, 5, 250_000, tzinfo=UTC)),
        ("2024-11-03T01:30:00Z", datetime(2024, 11, 3, 1, 30, tzinfo=UTC)),
        ("2024-11-03T01:30:00-07:00", datetime(2024, 11, 3, 8, 30, tzinfo=UTC)),
        ("2024-11-03T01:30:00+05:30", datetime(2024, 11, 2, 20, 0, tzinfo=UTC)),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles", "Asia/Kolkata"])
def test_moments_are_utc_unless_they_say_otherwise_whatever_the_machine_thinks(
    monkeypatch, zone, text, moment
):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        found = parse_moment(text)
        assert found == moment
        assert found.tzinfo is UTC
        assert asked(since=text).since == asked(until=text).until == moment
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_naive_datetime_is_utc_too():
    naive = datetime(2024, 1, 1, tzinfo=UTC).replace(tzinfo=None)
    assert asked(since=naive).since == datetime(2024, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "yesterday",
        "2024-13-01",
        "2024-02-30",
        "2024-01-01T25:00",
        "2024-01-01T00:00:61Z",
        "01/02/2024",
        "0001-01-01T00:00:00+05:00",
        "9999-12-31T23:59:59-05:00",
        "9999-12-31",
        "２０２４-01-01",
    ],
)
@pytest.mark.parametrize("field", ["since", "until"])
def test_what_is_no_moment_is_refused_by_name_and_text(field, text):
    said = refusal(**{field: text})
    assert said.startswith(f"{field}: ")
    assert repr(text) in said


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"last": "1h", "since": "2024-01-01"}, "last and since"),
        ({"from_id": 5, "since": "2024-01-01"}, "from_id and since/last"),
        ({"from_id": 5, "last": "1h"}, "from_id and since/last"),
        ({"to_id": 5, "until": "2024-01-01"}, "to_id and until"),
        ({"from_id": 9, "to_id": 3}, "to_id 3 is below from_id 9"),
        ({"since": "2024-01-02", "until": "2024-01-01"}, "until is before since"),
        ({"full_refresh": True, "only_failed": True}, "full_refresh and only_failed"),
        ({"workers": 50, "chunk_concurrency": 50}, "workers 50 x chunk_concurrency 50 is 2500"),
        ({"workers": 5, "chunk_concurrency": 41}, "at most 200"),
        ({"workers": 0}, "workers: "),
        ({"workers": 51}, "workers: "),
        ({"workers": 2.5}, "workers: "),
        ({"chunk_concurrency": -1}, "chunk_concurrency: "),
        ({"chunk_concurrency": 51}, "chunk_concurrency: "),
        ({"pages_per_chunk": 1001}, "pages_per_chunk: "),
        ({"to_id": -1}, "to_id: "),
        ({"outage_limit_s": -1.0}, "outage_limit_s: "),
        ({"outage_limit_s": float("nan")}, "outage_limit_s: "),
        ({"lake": "block:"}, "lake: block: is not followed by the name of a block"),
        ({"base_url": "block: "}, "base_url: block: is not followed"),
        ({"base_url": "ftp://host"}, "'ftp://host' is no http or https URL"),
        ({"base_url": "http://"}, "'http://' is no http or https URL"),
        ({"rate": "fast"}, "rate 'fast'"),
        ({"rate": "0/s"}, "rate '0/"),
        ({"products": []}, "no product is named"),
        ({"planner": "sideways"}, "planner: "),
        ({"colour": "blue"}, "colour: "),
    ],
)
def test_every_refused_input_is_named(fields, said):
    assert said in refusal(**fields)


@pytest.mark.parametrize(
    "product",
    [
        "BTC USD",
        "BTC/USD",
        "../BTC",
        "..",
        "",
        "-USD",
        "_A-USD",
        "BTC-USD\n",
        "dıa-usd",
        "ß",
        "A" * 65,
    ],
)
def test_what_cannot_be_a_product_is_refused_by_its_text(product):
    said = refusal(products=["ETH-USD", product])
    assert f"{product!r} is no product id" in said
    assert "BTC-USD" in said


def test_products_have_one_spelling_and_stand_once_in_their_order():
    assert asked(products=["eth-usd", "BTC-USD", "ETH-USD", "1inch-usd"]).products == (
        "ETH-USD",
        "BTC-USD",
        "1INCH-USD",
    )
    assert asked(products="eth-usd,BTC-USD").products == ("ETH-USD", "BTC-USD")


@pytest.mark.parametrize(
    ("empty", "meant"),
    [
        ({"from_id": 0, "to_id": 0}, {"from_id": None, "to_id": None}),
        ({"since": "", "until": "", "last": ""}, {"since": None, "until": None, "last": None}),
        ({"lake": ""}, {"lake": "configured"}),
        ({"base_url": ""}, {"base_url": "http://configured"}),
        ({"rate": ""}, {"rate": "7/s"}),
    ],
)
def test_what_a_form_leaves_empty_is_not_given(monkeypatch, empty, meant):
    monkeypatch.setenv("HEADRACE_LAKE", "configured")
    monkeypatch.setenv("HEADRACE_COINBASE_URL", "http://configured")
    monkeypatch.setenv("HEADRACE_RATE", "7/s")
    request = asked(**empty)
    assert {name: getattr(request, name) for name in meant} == meant


def test_saved_configuration_may_stand_for_values():
    request = asked(lake="block:ours", base_url="block:mine", rate="block:signed")
    assert (request.lake, request.base_url, request.rate) == (
        "block:ours",
        "block:mine",
        "block:signed",
    )


def test_a_refusal_shows_little_of_a_long_value():
    assert len(refusal(workers="9" * 5000)) < 300


def test_a_request_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        asked().workers = 50


@given(st.integers(1, 50), st.integers(0, 50))
def test_pools_are_bounded_by_their_product(workers, chunk_concurrency):
    fields = {"workers": workers, "chunk_concurrency": chunk_concurrency}
    if workers * chunk_concurrency <= MAX_IN_FLIGHT:
        assert asked(**fields).workers == workers
    else:
        assert str(workers * chunk_concurrency) in refusal(**fields)
