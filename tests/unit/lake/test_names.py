"""Names in the lake: one spelling, nothing unchecked, and back again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lake import PartName, canonical_exchange, canonical_product
from headrace.lake.exceptions import InvalidName
from headrace.lake.names import MAX_ID, product_of_folder, product_prefix

RANGES = st.tuples(st.integers(1, MAX_ID), st.integers(1, MAX_ID)).map(sorted)


@given(RANGES)
def test_a_range_survives_its_name(bounds: list[int]) -> None:
    name = PartName(*bounds)

    assert PartName.parse(str(name)) == name


@given(RANGES, RANGES)
def test_short_names_sort_as_their_ranges_do(one: list[int], other: list[int]) -> None:
    left, right = (PartName(*(n % 10**12 or 1 for n in bounds[:1] * 2)) for bounds in (one, other))

    assert (str(left) < str(right)) == (left < right)


@pytest.mark.parametrize(
    "name",
    [
        "part-1-2.parquet",
        "part-000000000002-000000000001.parquet",
        "part-000000000000-000000000001.parquet",
        "part-0000000000001-0000000000002.parquet",
        "part-000000000001-000000000002.parquet.tmp",
        ".part-000000000001-000000000002.parquet",
        "part-000000000001-9223372036854775808.parquet",
        "part-٠٠٠٠٠٠٠٠٠٠٠١-000000000002.parquet",
        "part-000000000001-000000000002.parquet\n",
        "_grid.json",
    ],
)
def test_anything_else_is_foreign(name: str) -> None:
    assert PartName.parse(name) is None


@pytest.mark.parametrize(("lo", "hi"), [(0, 1), (2, 1), (1, MAX_ID + 1)])
def test_a_range_that_no_part_can_have(lo: int, hi: int) -> None:
    with pytest.raises(ValueError, match="not a range"):
        PartName(lo, hi)


def test_one_spelling_per_product() -> None:
    spellings = ["btc-usd", "BTC-usd", "BTC-USD"]

    assert {canonical_product(text) for text in spellings} == {"BTC-USD"}
    assert canonical_product("1INCH-USD.P_1") == "1INCH-USD.P_1"
    assert canonical_exchange("Coinbase") == "coinbase"
    assert product_prefix("Coinbase", "btc-usd") == (
        "raw/trades/exchange=coinbase/product=BTC-USD/"
    )


@given(st.text())
def test_a_product_is_canonical_or_refused(text: str) -> None:
    try:
        product = canonical_product(text)
    except InvalidName as error:
        refusal = str(error)
    else:
        refusal = ""
    if refusal:
        assert repr(text) in refusal
        return
    assert canonical_product(product) == product
    assert product_of_folder(f"product={product}") == product
    assert not set(product) & set("/\\ \0\n%=:?#\"'")
    assert product.strip(".") != ""


@pytest.mark.parametrize("folder", ["product=btc", "exchange=A", "product=", "product=A/B", "x"])
def test_folders_that_are_no_products(folder: str) -> None:
    assert product_of_folder(folder) is None
