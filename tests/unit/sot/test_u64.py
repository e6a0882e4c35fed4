"""Unsigned integers in signed columns."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.sot.encoding import (
    from_signed,
    from_signed32,
    signed_ranges,
    to_signed,
    to_signed32,
)

EDGES = [0, 1, 2**63 - 1, 2**63, 2**64 - 1]
U64 = st.sampled_from(EDGES) | st.integers(0, 2**64 - 1)


@given(U64)
def test_a_value_survives_a_signed_column(value: int) -> None:
    assert -(2**63) <= to_signed(value) < 2**63
    assert from_signed(to_signed(value)) == value
    assert to_signed(value).to_bytes(8, "little", signed=True) == value.to_bytes(8, "little")


@given(st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32 - 1]))
def test_a_symbol_survives_a_signed_column(value: int) -> None:
    assert -(2**31) <= to_signed32(value) < 2**31
    assert from_signed32(to_signed32(value)) == value


@pytest.mark.parametrize("value", [-1, 2**64])
def test_what_is_not_unsigned_is_refused(value: int) -> None:
    with pytest.raises(OverflowError):
        to_signed(value)


@given(st.lists(U64, max_size=20, unique=True), U64, U64)
def test_ranges_give_unsigned_order(values: list[int], low: int, high: int) -> None:
    with sqlite3.connect(":memory:") as db:
        db.execute("CREATE TABLE t (seq INTEGER PRIMARY KEY)")
        db.executemany("INSERT INTO t VALUES (?)", [(to_signed(value),) for value in values])
        read = [
            from_signed(seq)
            for first, last in signed_ranges(low, high)
            for (seq,) in db.execute(
                "SELECT seq FROM t WHERE seq BETWEEN ? AND ? ORDER BY seq", (first, last)
            )
        ]
    db.close()
    assert read == sorted(value for value in values if low <= value <= high)
