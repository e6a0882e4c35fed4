"""Following a chain: what goes on, and why the rest does not."""

from __future__ import annotations

import hashlib
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from support.sot_streams import made, run_of
from xxhash import xxh3_64_intdigest

from headrace.sot.chain import Position, follow, genesis, link_run
from headrace.sot.exceptions import (
    ForkError,
    GapError,
    MalformedRecord,
    WrongHash,
    WrongLink,
)
from headrace.sot.frames import bodies, join
from headrace.sot.sample_records import StreamSpec, generate

RECORDS = made(40, symbols=1)
RUN = run_of(RECORDS, 1)
BODIES = list(bodies(RUN))


def test_both_chains_are_what_the_documentation_says() -> None:
    digest = hashlib.sha256(
        b"headrace sot v1\0" + (1).to_bytes(4, "little") + (1).to_bytes(8, "little")
    ).digest()
    hash_ = 0
    for body in BODIES:
        assert int.from_bytes(body[24:32], "little") == hash_
        hash_ = xxh3_64_intdigest(body[8:])
        assert int.from_bytes(body[:8], "little") == hash_
        framed = len(body).to_bytes(4, "little") + body
        digest = hashlib.sha256(digest + framed).digest()
    reached = follow(RUN, 0, 1, genesis(1))
    assert reached.error is None
    assert reached.position == Position(41, hash_, digest)
    assert reached.offset == len(RUN)


@given(st.lists(st.integers(1, 39), max_size=5, unique=True))
def test_it_does_not_matter_how_a_run_is_cut(cuts: list[int]) -> None:
    position = genesis(1)
    borders = [0, *sorted(cuts), 40]
    for start, stop in pairwise(borders):
        position = follow(join(BODIES[start:stop]), 0, 1, position).position
    assert position == follow(RUN, 0, 1, genesis(1)).position


@given(st.integers(1, 50), st.integers(1, 20_000))
def test_it_stops_where_it_is_asked_to(records: int, size: int) -> None:
    reached = follow(RUN, 0, 1, genesis(1), max_records=records, max_bytes=size)
    assert reached.error is None
    count = reached.position.next_seq - 1
    assert count == min(records, 40, -(-size // 300))
    assert reached.offset == 300 * count


def test_what_does_not_go_on_has_errors_of_its_own() -> None:
    middle = follow(RUN, 0, 1, genesis(1), max_records=10).position
    assert isinstance(follow(RUN, 300 * 11, 1, middle).error, GapError)
    assert isinstance(follow(RUN, 300 * 9, 1, middle).error, ForkError)
    other = Position(middle.next_seq, middle.hash ^ 1, middle.digest)
    assert isinstance(follow(RUN, 300 * 10, 1, other).error, WrongLink)
    assert follow(RUN, 0, 2, genesis(2)).error is None  # another symbol's: not our affair
    assert follow(RUN, 0, 2, genesis(2)).offset == 0


def test_changed_content_is_found_by_the_hash() -> None:
    run = bytearray(RUN)
    run[300 * 5 + 100] ^= 1
    reached = follow(bytes(run), 0, 1, genesis(1))
    assert isinstance(reached.error, WrongHash)
    assert reached.error.seq == 6
    assert reached.offset == 300 * 5


def test_a_hash_of_an_unknown_version_is_carried_and_its_links_are_checked() -> None:
    changed = []
    for body in BODIES:
        carried = bytearray(body)
        carried[9] = 77
        carried[100] ^= 1
        changed.append(bytes(carried))
    assert follow(join(changed), 0, 1, genesis(1)).error is None
    changed[3] = changed[3][:24] + bytes(8) + changed[3][32:]
    assert isinstance(follow(join(changed), 0, 1, genesis(1)).error, WrongLink)


def test_a_cut_frame_is_no_record() -> None:
    for kept in (1, 3, 50, 299):
        error = follow(RUN[:kept], 0, 1, genesis(1)).error
        assert isinstance(error, MalformedRecord)


@given(st.integers(0, len(RUN) - 1), st.integers(0, 7))
@settings(max_examples=500)
def test_no_flipped_bit_goes_on_unnoticed(at: int, bit: int) -> None:
    run = bytearray(RUN)
    run[at] ^= 1 << bit
    reached = follow(bytes(run), 0, 1, genesis(1))
    hash_version_of = at % 300 == 13
    if hash_version_of:
        # The record says now that its hash cannot be recomputed: the digest shows it.
        assert reached.position.digest != follow(RUN, 0, 1, genesis(1)).position.digest
    else:
        assert reached.offset == at // 300 * 300
        assert reached.position.next_seq == at // 300 + 1


def test_an_unchained_stream_is_linked_to_what_its_engine_would_have_made() -> None:
    plain = list(generate(StreamSpec(records=40, symbols=1, chained=False)))
    linked = link_run(join(made.body for made in plain), 0, 1, genesis(1), 100)
    assert linked == RUN


def test_linking_stops_at_a_record_that_carries_a_hash() -> None:
    assert link_run(RUN, 0, 1, genesis(1), 100) == b""
