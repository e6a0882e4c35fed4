"""Which requests a fault befalls."""

from __future__ import annotations

import pytest

from headrace.sim import Cut, Drip, Fault, Html, Refuse, Respond, SpecError, Stale, parse_fault
from headrace.sim.faults import FaultBook, Subject

PAGE = Subject("trades", "BTC-USD", 5001)


def struck(fault: Fault, subjects: list[Subject], uptime_s: float = 0.0) -> list[bool]:
    book = FaultBook(seed=1)
    book.add(fault)
    return [book.strike(subject, uptime_s) is not None for subject in subjects]


def test_a_fault_without_conditions_befalls_every_page() -> None:
    assert struck(Fault(action=Html()), [PAGE] * 3) == [True] * 3


def test_only_pages_are_meant_unless_said_otherwise() -> None:
    ticker = Subject("ticker", "BTC-USD")
    assert struck(Fault(action=Html()), [ticker]) == [False]
    assert struck(Fault(action=Html(), endpoint="ticker"), [ticker, PAGE]) == [True, False]
    assert struck(Fault(action=Html(), endpoint="any"), [ticker, PAGE]) == [True, True]


def test_calls_are_counted_among_the_requests_that_are_meant() -> None:
    other = Subject("trades", "ETH-USD", 1)
    fault = Fault(action=Html(), product="BTC-USD", from_call=2, calls=2)
    assert struck(fault, [PAGE, other, PAGE, other, PAGE, PAGE]) == [
        False, False, True, False, True, False,
    ]  # fmt: skip


def test_every_so_many_calls() -> None:
    fault = Fault(action=Html(), from_call=2, every=3)
    assert struck(fault, [PAGE] * 8) == [False, True, False, False, True, False, False, True]


def test_one_cursor() -> None:
    assert struck(
        Fault(action=Html(), cursor=5001), [PAGE, Subject("trades", "BTC-USD", 5002)]
    ) == [
        True,
        False,
    ]


def test_the_first_page_and_the_others() -> None:
    first = Subject("trades", "BTC-USD")
    assert struck(Fault(action=Html(), first_page=True), [first, PAGE]) == [True, False]
    assert struck(Fault(action=Html(), first_page=False), [first, PAGE]) == [False, True]


def test_a_stale_page_can_only_be_the_first() -> None:
    first = Subject("trades", "BTC-USD")
    assert struck(Fault(action=Stale(), calls=1), [PAGE, first, first]) == [False, True, False]


def test_an_interval() -> None:
    fault = Fault(action=Html(), between_s=(5, 10))
    assert [struck(fault, [PAGE], at)[0] for at in (4.9, 5, 9.9, 10)] == [False, True, True, False]


def test_a_probability_is_drawn_by_seed() -> None:
    fault = Fault(action=Html(), probability=0.2)
    drawn = struck(fault, [PAGE] * 5000)
    assert 0.17 < sum(drawn) / 5000 < 0.23
    assert struck(fault, [PAGE] * 5000) == drawn


def test_the_first_fault_decides_and_the_next_keeps_its_calls() -> None:
    book = FaultBook(seed=1)
    first = book.add(Fault(action=Html(), calls=1))
    second = book.add(Fault(action=Respond(), calls=1))
    hit = [book.strike(PAGE, 0.0) for _ in range(3)]
    assert [entry and entry[0] for entry in hit] == [first, second, None]
    assert book.hits() == {first: 1, second: 1}


def test_removed_faults_have_no_effect() -> None:
    book = FaultBook(seed=1)
    book.remove(book.add(Fault(action=Html())))
    assert book.strike(PAGE, 0.0) is None
    book.add(Fault(action=Html()))
    book.clear()
    assert book.strike(PAGE, 0.0) is None


def test_refusal_is_no_matter_of_requests() -> None:
    assert struck(Fault(action=Refuse()), [PAGE]) == [False]


def test_faults_are_read_as_written() -> None:
    assert parse_fault("respond,status=503,probability=0.01") == Fault(
        action=Respond(status=503), probability=0.01
    )
    assert parse_fault("cut,how=close,at_byte=9,product=BTC-USD,calls=2") == Fault(
        action=Cut(how="close", at_byte=9), product="BTC-USD", calls=2
    )
    assert parse_fault("drip, every_s=0.5, part=head, first_page=true") == Fault(
        action=Drip(every_s=0.5, part="head"), first_page=True
    )
    assert parse_fault("refuse,between_s=10:20") == Fault(action=Refuse(), between_s=(10, 20))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("explode", "explode"),
        ("respond,status=99", "status"),
        ("cut,how=twice", "how"),
        ("html,colour=red", "colour"),
        ("html,calls", "field=value"),
        ("html,probability=2", "probability"),
        ("html,between_s=1", "between_s"),
        ("html,between_s=20:10", "ends before it begins"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, named: str) -> None:
    with pytest.raises(SpecError, match=named):
        parse_fault(text)
