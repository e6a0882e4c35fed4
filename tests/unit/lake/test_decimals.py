"""One spelling per decimal: against Python's Decimal, and the fast path against the exact one."""

from __future__ import annotations

from decimal import Context, Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.lake.decimals import NotADecimal, canonical_decimal, canonical_decimals

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
@example(["1.50", "1E3", "007", "0", "0.0"])
def test_the_column_is_spelled_as_its_values_are(texts: list[str]) -> None:
    column = canonical_decimals(pa.array(texts, pa.string()))

    assert column.to_pylist() == [canonical_decimal(text) for text in texts]


@given(st.lists(PLAIN, min_size=5, max_size=20), st.integers(0, 4))
def test_a_slice_of_a_column_is_spelled_alike(texts: list[str], skipped: int) -> None:
    column = canonical_decimals(pa.array(texts, pa.string()).slice(skipped))

    assert column.to_pylist() == [canonical_decimal(text) for text in texts[skipped:]]


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
        canonical_decimals(pa.array(["1.0", "2", text, text], pa.string()))
    assert caught.value.row == 2
