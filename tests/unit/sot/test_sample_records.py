"""Generated streams: the same every time, of the size, the skew and the faults asked for."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from support.sot_streams import made, run_of

from headrace.errors import ConfigurationError
from headrace.sot import sample_records
from headrace.sot.chain import follow, genesis
from headrace.sot.encoding import decode, encode
from headrace.sot.frames import in_groups


@pytest.mark.parametrize("size", [72, 100, 300, 301, 1700, 15_000])
def test_frames_have_the_size_asked_for_and_chain(size: int) -> None:
    records = made(90, symbols=3, size_bytes=size)
    assert {len(record.body) + 4 for record in records} == {size}
    for symbol_id in (1, 2, 3):
        assert follow(run_of(records, symbol_id), 0, symbol_id, genesis(symbol_id)).error is None
    assert all(encode(decode(record.body)) == record.body for record in records)


def test_larger_records_hold_more_of_everything() -> None:
    record = decode(made(1, size_bytes=1700)[0].body)
    assert len(record.trades) == 6
    assert record.order_update
    assert record.balance_events
    assert record.order_placements
    assert record.order_completions


def test_the_same_values_give_the_same_stream() -> None:
    faults = {"gap": 2, "swap": 2}
    assert made(100, faults=faults) == made(100, faults=faults)
    assert made(100) != made(100, seed=2)


def test_skew() -> None:
    counts = Counter(record.symbol_id for record in made(5000, symbols=9, hot_share=0.9))
    assert 4350 < counts[1] < 4650
    assert len(counts) == 9
    assert set(Counter(record.symbol_id for record in made(90, symbols=9)).values()) == {10}


def test_the_engines_sequence_has_no_gap() -> None:
    assert [decode(r.body).input.input_seq for r in made(20)] == list(range(1, 21))


@pytest.mark.parametrize("kind", ["gap", "duplicate", "fork", "swap", "link", "hash"])
def test_faults_are_there_as_often_as_asked_for(kind: str) -> None:
    sound = made(400, symbols=3)
    corrupt = made(400, symbols=3, faults={kind: 5})
    sound_bodies = [record.body for record in sound]
    corrupt_bodies = [record.body for record in corrupt]
    if kind == "gap":
        assert len(corrupt) == 395
        assert not Counter(corrupt_bodies) - Counter(sound_bodies)
    elif kind == "swap":
        assert Counter(corrupt_bodies) == Counter(sound_bodies)
        assert corrupt_bodies != sound_bodies
    else:
        assert sum(record.fault == kind for record in corrupt) == 5
        assert len(corrupt) == (400 if kind in ("link", "hash") else 405)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"size_bytes": 71}, "size_bytes"),
        ({"hot_share": 1.5}, "hot_share"),
        ({"symbol_ids": (2**32,)}, "greatest symbol"),
        ({"first_seq": 2**64 - 5}, "first_seq"),
        ({"faults": {"fire": 1}}, "no fault 'fire'"),
        ({"faults": {"gap": 5}}, "too many"),
    ],
)
def test_what_cannot_be_made_is_said(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        made(10, **settings)


def test_large_records_are_written_a_few_at_a_time() -> None:
    """Two thousand of 16 MiB would be 32 GB."""
    large = in_groups([bytes(n) for n in (30, 20, 60, 90, 10, 40)], 4, 60, len)
    assert [[len(each) for each in group] for group in large] == [[30, 20], [60], [90], [10, 40]]
    assert [len(group) for group in in_groups([b"x"] * 9, 4, 60, len)] == [4, 4, 1]


@pytest.mark.parametrize(("records", "symbols", "size"), [(4, 2, 20_000), (9, 300, 300)])
def test_large_records_and_many_symbols_take_bounded_memory(
    monkeypatch: pytest.MonkeyPatch, records: int, symbols: int, size: int
) -> None:
    """Patterns lie in memory: as many for each symbol as fit, one at least."""
    bound, kept = 200_000, 0
    pattern = sample_records._pattern

    def counted(*given: Any) -> tuple[bytes, bytes]:
        nonlocal kept
        parts = pattern(*given)
        kept += sum(map(len, parts))
        return parts

    monkeypatch.setattr(sample_records, "_PATTERN_BYTES", bound)
    monkeypatch.setattr(sample_records, "_pattern", counted)
    assert {len(each.body) + 4 for each in made(records, symbols=symbols, size_bytes=size)} == {
        size
    }
    assert kept <= bound
