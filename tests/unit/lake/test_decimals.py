"""One spelling per decimal: against Python's Decimal, and the fast path against the exact one."""

from __future__ import annotations

from decimal import Context, Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.lake.decimals import NotADecimal, canonical_decimal, column_words, words_of

EXACT = Context(prec=2_000)

DIGITS = st.text("0123456789", min_size=1, max_size=30)
PLAIN = st.one_of(
    DIGITS,
    st.builds("{}.{}".format, DIGITS, DIGITS),
    st.decimals(allow_nan=False, allow_infinity=False, places=8).map(str),
)
ODD = st.one_of(
    st.builds("{}{}e{}".format, st.sampled_from(["", "+", "-"]), DIGITS, st.integers(-40, 40)),
    st.builds(
        "{}{}.{}E{:+d}".format, st.sampled_from(["", "-"]), DIGITS, DIGITS, st.integers(-9, 9)
    ),
    st.builds(".{}".format, DIGITS),
    st.builds("{}.".format, DIGITS),
    st.builds("-{}".format, DIGITS),
)


@given(st.one_of(PLAIN, ODD))
@example("0.0")
@example("-0")
@example("00")
@example("1E+10")
@example("1E-8")
@example("0.0000000100000000000000000000000000000000")
def test_the_value_is_unchanged_and_spelled_without_ornament(text: str) -> None:
    canonical = canonical_decimal(text)

    assert Decimal(canonical) == Decimal(text)
    assert "E" not in canonical.upper()
    assert canonical == canonical_decimal(canonical)
    assert format(EXACT.create_decimal(canonical), "f") == canonical
    assert canonical == "0" or Decimal(canonical) != 0
    assert "." not in canonical or canonical[-1] in "123456789"


@given(st.lists(st.one_of(PLAIN, ODD), max_size=40))
@example(["1.0", "10"])
@example(["100"])
@example(["1.50", "1E3", "007", "0", "0.0", "-0"])
@example(["9" * 20 + "." + "9" * 18, "9" * 21, "1" * 1_000, "0." + "0" * 18 + "1", "-1"])
@example(["0e999999999", "0e-999999999", "00000000000000000001.0"])
def test_the_words_of_a_column_are_those_of_its_values(texts: list[str]) -> None:
    lows, highs = column_words(pa.array(texts, pa.string()))

    assert list(zip(lows.to_pylist(), highs.to_pylist(), strict=True)) == list(map(words_of, texts))


def short(whole: int, places: int, fraction: int) -> str:
    """A number as exchanges send them, of at most 16 characters."""
    return f"{whole}.{fraction:0{places}d}"[:16] if places else str(whole)


SHORT = st.builds(short, st.integers(0, 10**7 + 1), st.integers(0, 9), st.integers(0, 10**9))


@given(st.lists(st.one_of(SHORT, st.from_regex(r"\A0{0,3}[0-9]{0,7}\.[0-9]{1,8}\Z")), max_size=40))
@example(["9999999.99999999", "0.00000001", "0", "1.5"])
@example(["9999999.99999999", "10000000"])
@example(["10000000.0000001"])
@example(["0.12345678", "0.123456789"])
@example(["1234567.12345678", "1234567.12345679"])
@example(["0.00000000000001"])
@example(["0000000000000001", "1048575", "1048576", "92233.72036854"])
@example(["-0", "-0.5", "1"])
@example(["18446744073.709", "92233720368.547"])
def test_numbers_that_doubles_hold_are_read_as_exactly(texts: list[str]) -> None:
    lows, highs = column_words(pa.array(texts, pa.string()))

    assert list(zip(lows.to_pylist(), highs.to_pylist(), strict=True)) == list(map(words_of, texts))


@pytest.mark.parametrize("text", ["", " 1", "1 ", "+", ".", "-", "1-1", "1.2.3", "1,5", "--1"])
def test_a_short_text_that_is_no_number_is_refused_among_short_numbers(text: str) -> None:
    with pytest.raises(NotADecimal) as caught:
        column_words(pa.array(["1.25", text, "3"], pa.string()))
    assert caught.value.row == 1


@given(st.lists(PLAIN, min_size=5, max_size=20), st.integers(0, 4))
def test_a_slice_of_a_column_is_read_alike(texts: list[str], skipped: int) -> None:
    lows, highs = column_words(pa.array(texts, pa.string()).slice(skipped))

    expected = [words_of(text) for text in texts[skipped:]]
    assert list(zip(lows.to_pylist(), highs.to_pylist(), strict=True)) == expected


def test_a_column_longer_than_any_batch() -> None:
    for ending in ("", ".0000000000000"):  # as doubles, and as decimals
        lows, _ = column_words(pa.array([f"{n}{ending}" for n in range(70_000)], pa.string()))

        assert lows.to_pylist() == [n * 10**18 % 2**64 for n in range(70_000)]


@given(PLAIN, PLAIN)
@example("0.1", "0.100")
@example("1" * 25, "1" * 26)
@example("-1", "1")
def test_words_are_equal_as_far_as_values_are(left: str, right: str) -> None:
    assert (words_of(left) == words_of(right)) == (Decimal(left) == Decimal(right))


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20))
def test_equal_numbers_have_one_spelling(number: Decimal) -> None:
    spellings = {str(number), format(number, "f"), format(number, "e"), format(number, "E")}

    assert len({canonical_decimal(text) for text in spellings}) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "-",
        "e5",
        "NaN",
        "Infinity",
        "-inf",
        "1_000",
        " 1",
        "1\n",
        "1,0",
        "0x1",
        "1e",
        "1.2.3",
        "١",
        "1E401",
        "1E-999999999",
        "1E9999999999",
    ],
)
def test_what_is_no_decimal_is_refused_and_its_row_named(text: str) -> None:
    with pytest.raises(ValueError):
        canonical_decimal(text)
    with pytest.raises(NotADecimal) as caught:
        column_words(pa.array(["1.0", "2", text, text], pa.string()))
    assert caught.value.row == 2
