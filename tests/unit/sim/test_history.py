"""The generated history: pure, addressable, and as untidy as the real one."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.sim import History, ProductSpec

NOW_S = 1_700_000_000


def history(seed: int = 7, **fields: object) -> History:
    spec = ProductSpec.model_validate({"id": "BTC-USD", "trades": 25_300, **fields})
    return History(spec, seed=seed, now_s=NOW_S)


SHAPES = {
    "dense": {},
    "sparse": {"density": 0.3},
    "very sparse": {"density": 0.002, "trades": 400_000},
    "with big gaps": {"density": 0.5, "gaps": 0.4},
    "from id 734": {"first_id": 734},
    "cheap": {"price": "0.0000123"},
    "one a minute": {"trades_per_s": 1 / 60},
    "a thousand a second": {"trades_per_s": 1000},
    "a billion": {"trades": 1_000_000_000},
}


@pytest.fixture(params=SHAPES.values(), ids=SHAPES.keys())
def any_history(request: pytest.FixtureRequest) -> History:
    return history(**request.param)


def served_below(source: History, top: int, limit: int = 1000) -> list[dict[str, object]]:
    _, rows = source.rows_below(top, limit)
    return json.loads(f"[{','.join(rows)}]")


def micros(text: str) -> int:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return (datetime.fromisoformat(text) - epoch) // timedelta(microseconds=1)


def test_served_rows_are_the_truth_row_by_row(any_history: History) -> None:
    rows = served_below(any_history, any_history.spec.last_id - 333)
    assert rows
    for row in rows[::37]:
        trade = any_history.trade(row["trade_id"])
        assert row == {
            "time": trade.time,
            "trade_id": trade.trade_id,
            "price": trade.price,
            "size": trade.size,
            "side": trade.side,
        }
        assert micros(row["time"]) == trade.time_us


def test_served_rows_are_the_truth_by_column(any_history: History) -> None:
    rows = served_below(any_history, any_history.spec.last_id - 333)[::-1]
    columns = any_history.columns(rows[0]["trade_id"], rows[-1]["trade_id"])
    assert columns.trade_id == [row["trade_id"] for row in rows]
    assert columns.time_us == [micros(row["time"]) for row in rows]
    assert columns.price == [row["price"] for row in rows]
    assert columns.size == [row["size"] for row in rows]
    assert columns.side == [row["side"] for row in rows]


def test_walking_by_pages_meets_every_id_once(any_history: History) -> None:
    spec = any_history.spec
    stop = max(spec.first_id, spec.last_id - 30_000)
    walked: list[int] = []
    top = spec.last_id
    while top >= stop:
        ids, _ = any_history.rows_below(top, 777)
        walked += [at for at in ids if at >= stop]
        top = ids[-1] - 1 if ids else 0
    assert walked[::-1] == list(any_history.ids(stop, spec.last_id))
    assert len(walked) == any_history.count(stop, spec.last_id)


def test_the_same_seed_gives_the_same_rows_and_another_does_not() -> None:
    rows = history().rows_below(20_000, 1000)
    assert history().rows_below(20_000, 1000) == rows
    assert history(seed=8).rows_below(20_000, 1000) != rows
    assert history(id="ETH-USD").rows_below(20_000, 1000) != rows


def test_rows_of_different_blocks_differ() -> None:
    columns = history().columns(1, 25_000)
    values = list(zip(columns.price, columns.size, strict=True))
    stretches = {tuple(values[at : at + 5]) for at in range(0, 25_000, 1000)}
    assert len(stretches) == 25


def test_nothing_lies_below_the_first_id() -> None:
    source = history(first_id=734, trades=767)
    ids, _ = source.rows_below(1500, 1000)
    assert (ids[0], ids[-1], len(ids)) == (1500, 734, 767)
    assert source.rows_below(733, 1000) == ([], [])
    assert not source.exists(733)
    with pytest.raises(KeyError):
        source.trade(733)


def test_a_sparse_history_has_about_its_density() -> None:
    source = history(density=0.3, trades=100_000)
    assert 0.27 < source.count(1, 100_000) / 100_000 < 0.33


def test_gaps_are_longer_than_a_page_and_about_as_many_as_asked_for() -> None:
    source = history(gaps=0.4, trades=300_000)
    ids = list(source.ids(1, 300_000))
    holes = [b - a - 1 for a, b in pairwise(ids) if b - a > 1]
    assert holes
    assert min(holes) >= 3000
    assert 0.25 < sum(holes) / 300_000 < 0.55


def test_the_newest_trade_is_from_now(any_history: History) -> None:
    spec = any_history.spec
    newest_us = any_history.columns(spec.last_id - 5000, spec.last_id).time_us[-1]
    apart_s = NOW_S - newest_us / 1e6
    ids_apart = spec.last_id - next(iter(any_history.rows_below(spec.last_id, 1)[0]))
    assert -1 <= apart_s <= 2 + 1.5 * (ids_apart + 1) / spec.trades_per_s + 0.5


def test_times_span_what_the_density_says() -> None:
    source = history(trades=300_000, trades_per_s=10)
    times = source.columns(1, 300_000).time_us
    assert times[-1] - times[0] == pytest.approx(30_000e6, rel=0.01)


def test_times_rise_but_for_little_steps_back() -> None:
    times = history().columns(1, 25_000).time_us
    steps_back = [a - b for a, b in pairwise(times) if b < a]
    assert 100 < len(steps_back) < 2500
    assert max(steps_back) <= 40_000
    assert sum(a == b for a, b in pairwise(times)) > 500


def test_many_trades_share_a_millisecond() -> None:
    times = history().columns(1, 1000).time_us
    milliseconds = [at // 1000 for at in times]
    assert max(milliseconds.count(at) for at in set(milliseconds)) >= 36


def test_time_texts_have_trimmed_fractions_of_every_length_and_none() -> None:
    rows = served_below(history(), 25_000)
    lengths = {len(row["time"][len("2023-11-14T22:13:20") : -1]) for row in rows}
    assert lengths == {0, 2, 3, 4, 5, 6, 7}
    assert not any(row["time"].endswith("0Z") and "." in row["time"] for row in rows)


def test_decimal_texts_have_several_scales() -> None:
    columns = history(price="0.072").columns(1, 5000)
    for texts in (columns.price, columns.size):
        assert len({len(text.partition(".")[2]) for text in texts}) >= 3
        assert all(Decimal(text) > 0 for text in texts)
    assert all(Decimal("0.04") < Decimal(text) < Decimal("0.11") for text in columns.price)


def test_a_block_over_midnight_has_both_dates() -> None:
    midnight = 1_700_006_400
    source = History(ProductSpec(id="BTC-USD", trades=2500), seed=7, now_s=midnight + 30)
    days = {row["time"][:10] for row in served_below(source, 2500)}
    assert days == {"2023-11-14", "2023-11-15"}


@settings(max_examples=60)
@given(
    lo=st.integers(1, 30_000),
    length=st.integers(0, 3000),
    density=st.sampled_from([1.0, 0.3, 0.01]),
    gaps=st.sampled_from([0.0, 0.5]),
)
def test_ranges_add_up(lo: int, length: int, density: float, gaps: float) -> None:
    source = history(density=density, gaps=gaps, first_id=500)
    hi = lo + length
    middle = lo + length // 2
    whole = source.columns(lo, hi)
    parts = [source.columns(lo, middle), source.columns(middle + 1, hi)]
    for at, column in enumerate(whole):
        assert column == parts[0][at] + parts[1][at]
    assert whole.trade_id == list(source.ids(lo, hi))
    assert len(whole.trade_id) == source.count(lo, hi)
    assert all(source.exists(at) for at in whole.trade_id[:5])
