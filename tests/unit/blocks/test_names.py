"""Names of checkpoints: one-to-one, and of the characters that Prefect allows."""

import re
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prefect.client.schemas.actions import BlockDocumentCreate

from blocks.checkpoint import checkpoint_name

ALLOWED = re.compile(r"[a-z0-9]+(-+[a-z0-9]+)*")
PRODUCTS = [
    "BTC-USD",
    "btc_usd",
    "BTC_USD",
    "BTC.USD",
    "BTCUSD",
    "btc-usd",
    "BTC--USD",
    "BTC/USD",
    "1INCH-USD",
    "BTCAUCTION-USD",
    "CGLD-BTC",
    "XBT.F",
    "_",
    ".",
    "-",
    "BTC-",
    "-BTC",
    "Ж-USD",
    "BTC-USD--4254432d555344",
]
PLACES = [("/a", "coinbase"), ("/b", "coinbase"), ("s3://a/b", "coinbase"), ("/a", "looker")]


def test_different_things_have_different_names_that_prefect_takes():
    names = {
        checkpoint_name(lake, source, product) for lake, source in PLACES for product in PRODUCTS
    }
    assert len(names) == len(PLACES) * len(PRODUCTS)
    for name in names:
        assert ALLOWED.fullmatch(name)
        BlockDocumentCreate(name=name, data={}, block_type_id=uuid4(), block_schema_id=uuid4())


def test_the_names_of_real_products_are_readable():
    name = checkpoint_name("/lake", "coinbase", "1INCH-USD")
    assert re.fullmatch(r"coinbase-1inch-usd-[0-9a-f]{8}", name)


@given(st.sets(st.text(min_size=1, max_size=30), min_size=2, max_size=20))
def test_no_two_products_share_a_name_whatever_their_characters(products):
    names = {checkpoint_name("/lake", "coinbase", product) for product in products}
    assert len(names) == len(products)
    assert all(ALLOWED.fullmatch(name) for name in names)


PLAIN = st.text(alphabet="AB1-_.", min_size=1, max_size=6)


@given(PLAIN, PLAIN)
def test_no_two_products_of_few_characters_share_a_name(left, right):
    same = checkpoint_name("/lake", "a", left) == checkpoint_name("/lake", "a", right)
    assert same == (left == right)


@pytest.mark.parametrize(
    ("source", "product"),
    [("coin-base", "BTC-USD"), ("Coinbase", "BTC-USD"), ("", "BTC-USD"), ("coinbase", "")],
)
def test_what_would_make_names_ambiguous_is_refused(source, product):
    with pytest.raises(ValueError, match="no checkpoint name"):
        checkpoint_name("/lake", source, product)
