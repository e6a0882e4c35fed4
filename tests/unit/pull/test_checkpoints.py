"""The stored form of a checkpoint: round trip, upgrades, and what is refused instead of guessed."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.coverage import IntervalSet
from headrace.errors import StateError
from headrace.pull.checkpoints import SCHEMA_VERSION, Checkpoint, read_checkpoint
from headrace.pull.exceptions import CheckpointTooNew, CheckpointUnreadable

WHOSE = {"lake": "/lake", "source": "coinbase", "product": "BTC-USD"}


def checkpoint(**fields) -> Checkpoint:
    return Checkpoint(
        **{
            **WHOSE,
            "covered": ((1, 4000), (5001, 6000)),
            "holes": ((2001, 3000),),
            "failed": ((4001, 5000),),
            "rows": 4000,
            "first": 1,
            "watermark": 4000,
            "newest": 6000,
            "fencing_token": 3,
            "run_id": "run",
            "updated_at": datetime(2026, 1, 1, tzinfo=UTC),
            **fields,
        }
    )


def stored(**changes):
    return {**checkpoint().model_dump(mode="json"), **changes}


def test_what_was_saved_is_read_back():
    assert read_checkpoint(stored(), **WHOSE) == checkpoint()


RANGES = st.lists(st.tuples(st.integers(1, 2**62), st.integers(0, 5000))).map(
    lambda pairs: tuple((lo, lo + more) for lo, more in pairs)
)


@given(RANGES, RANGES, RANGES)
def test_ranges_survive_whatever_their_order_and_are_normal(covered, holes, failed):
    before = checkpoint(covered=covered, holes=holes, failed=failed)
    after = read_checkpoint(before.model_dump(mode="json"), **WHOSE)
    assert after == before
    assert after.coverage == IntervalSet.from_ranges(covered)


def test_version_0_is_upgraded_with_what_it_did_not_know_left_open():
    old = stored(schema_version=0)
    del old["rows"], old["first"]
    upgraded = read_checkpoint(old, **WHOSE)
    assert upgraded == checkpoint(rows=0, first=0)
    assert upgraded.schema_version == SCHEMA_VERSION


def test_every_older_version_has_an_upgrade():
    for version in range(SCHEMA_VERSION):
        assert read_checkpoint(stored(schema_version=version), **WHOSE).schema_version == (
            SCHEMA_VERSION
        )


@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, 99])
def test_a_newer_version_is_refused_even_if_it_looks_alike(version):
    with pytest.raises(CheckpointTooNew) as refused:
        read_checkpoint(stored(schema_version=version), **WHOSE)
    assert (refused.value.found, refused.value.known) == (version, SCHEMA_VERSION)
    assert "Upgrade headrace" in str(refused.value)
    assert "coinbase/BTC-USD in /lake" in str(refused.value)


def without(name):
    rest = stored()
    del rest[name]
    return rest


DAMAGED = {
    "nothing": {},
    "no version": without("schema_version"),
    "version as text": stored(schema_version="1"),
    "version true": stored(schema_version=True),
    "version below zero": stored(schema_version=-1),
    "no lake": without("lake"),
    "no product": without("product"),
    "no time": without("updated_at"),
    "time is no time": stored(updated_at="soon"),
    "covered is no list": stored(covered="all"),
    "covered is turned": stored(covered=[[9, 3]]),
    "covered has three ends": stored(covered=[[1, 2, 3]]),
    "rows below zero": stored(rows=-1),
    "watermark below zero": stored(watermark=-1),
    "newest is text": stored(newest="many"),
    "a field too many": stored(colour="blue"),
}


@pytest.mark.parametrize("form", DAMAGED.values(), ids=DAMAGED.keys())
def test_damage_is_named_and_never_read_as_a_start_from_zero(form):
    with pytest.raises(CheckpointUnreadable) as refused:
        read_checkpoint(form, **WHOSE)
    assert "coinbase/BTC-USD in /lake" in str(refused.value)
    assert "headrace checkpoint rebuild BTC-USD" in str(refused.value)
    assert isinstance(refused.value, StateError)


@pytest.mark.parametrize(
    "other", [{"lake": "/other"}, {"source": "kraken"}, {"product": "ETH-USD"}]
)
def test_that_of_another_is_refused(other):
    with pytest.raises(CheckpointUnreadable, match="is that of"):
        read_checkpoint(stored(**other), **WHOSE)


def test_a_refusal_names_the_field():
    with pytest.raises(CheckpointUnreadable, match=r"damaged \(covered"):
        read_checkpoint(stored(covered=[[9, 3]]), **WHOSE)
