"""The content digest: as defined, free of order, addable, sensitive."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import add

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lake import ContentDigest, content_digest, row_digest
from headrace.lake.exceptions import InvalidTrades
from headrace.trades import RAW_SCHEMA, empty_trades
from tests.lake_samples import EPOCH_US, one_trade, trades

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NUMBERS = st.from_regex(r"\A[0-9]{1,8}(\.[0-9]{1,18})?([eE][+-]?[0-9])?\Z")
ROWS = st.lists(
    st.tuples(
        st.integers(1, 2**62),
        st.integers(-(2**40), 2**51),
        NUMBERS,
        NUMBERS,
        st.sampled_from(["buy", "sell", "SELL"]),
    ),
    max_size=12,
)


def table_of(rows: list[tuple[int, int, str, str, str]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ([] for _ in RAW_SCHEMA)
    arrays = [
        pa.array([EPOCH + timedelta(microseconds=us) for us in column], field.type)
        if field.name == "time"
        else pa.array(list(column), field.type)
        for field, column in zip(RAW_SCHEMA, columns, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=RAW_SCHEMA)


@given(ROWS)
def test_the_vectorised_digest_is_the_sum_of_the_rows(
    rows: list[tuple[int, int, str, str, str]],
) -> None:
    expected = reduce(add, (row_digest(*row) for row in rows), ContentDigest())

    assert content_digest(table_of(rows)) == expected


def test_a_known_value_for_who_implements_it_elsewhere() -> None:
    digest = row_digest(86_327_327, 1_584_664_619_860_000, "6225.32000000", "0.01", "sell")
    odd = row_digest(1, -1, "1" * 30, "-1e-30", "ABCDEFGHIJ")

    assert str(digest) == "7eeedc48123c4f546b77da487a8c0068"
    assert str(odd) == "45877c179794275f75f108309ca25e96"


@pytest.mark.parametrize("bit", [0, 1, 31, 32, 47, 62])
@pytest.mark.parametrize("word", [0, 1])
def test_one_bit_of_a_row_turns_half_of_its_hash(word: int, bit: int) -> None:
    turned = []
    for base in range(1, 201):
        row = [base, base * 1_000]
        before = row_digest(*row, "1", "1", "buy").value
        row[word] ^= 1 << bit
        turned.append((before ^ row_digest(*row, "1", "1", "buy").value).bit_count())

    # 200 times 128 coins: the mean is 64 give or take 0.4.
    assert abs(sum(turned) / len(turned) - 64) < 2.5
    assert min(turned) > 30


def test_values_that_changed_places_between_rows_show() -> None:
    rows = [(n, 1_000 * n, f"{n}.5", f"0.{n}", "buy" if n % 2 else "sell") for n in (1, 2)]
    digests = {row_digest(*rows[0]) + row_digest(*rows[1])}
    for at in range(5):
        left, right = (list(row) for row in rows)
        left[at], right[at] = right[at], left[at]
        digests.add(row_digest(*left) + row_digest(*right))

    assert len(digests) == 6


def test_no_two_of_many_rows_that_resemble_each_other_share_half_a_hash() -> None:
    rows = trades(range(1, 4_001))
    halves: list[set[int]] = [set(), set()]
    for batch in rows.to_batches(max_chunksize=1):
        value = content_digest(pa.Table.from_batches([batch])).value
        halves[0].add(value >> 64)
        halves[1].add(value & (2**64 - 1))

    assert [len(half) for half in halves] == [4_000, 4_000]


def test_no_rows_have_digest_zero() -> None:
    assert str(content_digest(empty_trades())) == "0" * 32


def test_order_and_chunking_do_not_matter() -> None:
    table = trades(range(1, 10_001))
    shuffled = table.take(pa.array([(n * 7_919) % 10_000 for n in range(10_000)]))
    cut = pa.concat_tables([table.slice(0, 4_099), table.slice(4_099)])

    assert content_digest(shuffled) == content_digest(cut) == content_digest(table)


def test_digests_of_parts_add_up() -> None:
    table = trades(range(1, 1_001))
    left, right = content_digest(table.slice(0, 333)), content_digest(table.slice(333))

    assert left + right == content_digest(table)
    assert content_digest(table) - right == left


@pytest.mark.parametrize("at", [0, 499, 999])
def test_a_lost_a_doubled_and_a_changed_row_show(at: int) -> None:
    table = trades(range(1, 1_001))
    lost = pa.concat_tables([table.slice(0, at), table.slice(at + 1)])
    doubled = pa.concat_tables([table, table.slice(at, 1)])
    twice_doubled = pa.concat_tables([doubled, table.slice(at, 1)])
    changed = pa.concat_tables([lost, one_trade(trade_id=at + 1)])

    digests = {content_digest(each) for each in (table, lost, doubled, twice_doubled, changed)}

    assert len(digests) == 5


def test_spelling_of_a_number_does_not_matter_but_its_value_does() -> None:
    same = [one_trade(price=text) for text in ("1", "1.0", "1.00", "1E0", "+1.000", "10e-1")]

    assert len({content_digest(table) for table in same}) == 1
    assert content_digest(one_trade(price="1.01")) != content_digest(same[0])
    assert content_digest(one_trade(price="1", size="2")) != content_digest(
        one_trade(price="2", size="1")
    )
    assert content_digest(one_trade(side="buy")) != content_digest(one_trade(side="sell"))


def test_the_row_that_cannot_be_spelled_is_named() -> None:
    table = pa.concat_tables([trades(range(1, 9_001)), one_trade(trade_id=9_001, size="NaN")])

    with pytest.raises(InvalidTrades, match="trade 9001: size 'NaN'") as caught:
        content_digest(table)
    assert caught.value.trade_id == 9_001


def test_text_form_and_back() -> None:
    digest = content_digest(trades([5, 6]))

    assert ContentDigest.parse(str(digest)) == digest
    for text in ("", "xyz", "1", "0" * 33, "-" + "0" * 31, str(digest).upper()):
        with pytest.raises(ValueError):
            ContentDigest.parse(text)


def test_time_is_counted_in_microseconds() -> None:
    table = trades([1])
    later = table.set_column(
        1, RAW_SCHEMA.field("time"), pa.array([EPOCH_US + 137_002], RAW_SCHEMA.field("time").type)
    )

    assert content_digest(later) != content_digest(table)
