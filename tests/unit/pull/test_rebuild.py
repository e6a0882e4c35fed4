"""A checkpoint from the lake alone: names, footers, and nothing else."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from support.exchange import rows_of

from headrace.errors import StateError
from headrace.lake import open_lake
from headrace.lake.exceptions import PartUnreadable
from headrace.leases import LeaseHeld, LeaseLost, SqliteLeases, hold
from headrace.pull.checkpoints import Checkpoint
from headrace.pull.exceptions import CheckpointTooNew, CheckpointUnreadable, NothingToRebuild
from headrace.pull.product_leases import ProductLeases
from headrace.pull.rebuild import from_lake, rebuild

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def product_leases_of(leases):
    return ProductLeases(leases, "coinbase", "BTC-USD", "here")


class Kept:
    """Checkpoints in a dictionary; a load may be made to fail."""

    lake = "here"

    def __init__(self, trouble: Exception | None = None) -> None:
        self.trouble = trouble
        self.saved: list[Checkpoint] = []

    def load(self, source, product):
        if self.trouble:
            raise self.trouble
        return self.saved[-1] if self.saved else None

    def save(self, checkpoint):
        self.saved.append(checkpoint)


@pytest.fixture
def lake(tmp_path):
    return open_lake(tmp_path / "lake").raw("coinbase", cell_pages=2)


@pytest.fixture
def leases(tmp_path):
    return SqliteLeases(tmp_path / "leases")


def put(lake, lo, hi, ids):
    table = pa.Table.from_batches([rows_of(list(ids))])
    lake.write("BTC-USD", lo, hi, table, source="localhost", fetched_at=NOW)


def rebuilt(lake, kept, leases, **more):
    return rebuild(
        lake,
        "BTC-USD",
        checkpoints=kept,
        product_leases=product_leases_of(leases),
        run_id="me",
        ttl_s=60,
        now=NOW,
        **more,
    )


def test_all_that_the_lake_tells_stands_in_the_checkpoint(lake, leases):
    put(lake, 1, 500, [])
    put(lake, 501, 2000, [700, *range(1801, 2001)])
    put(lake, 2001, 4000, range(2001, 4001))
    put(lake, 6001, 7000, range(6001, 6901))
    kept = Kept()
    checkpoint = rebuilt(lake, kept, leases)
    assert kept.saved == [checkpoint]
    assert checkpoint == Checkpoint(
        lake="here",
        source="coinbase",
        product="BTC-USD",
        covered=((1, 4000), (6001, 7000)),
        holes=((701, 1800),),
        rows=201 + 2000 + 900,
        first=700,
        watermark=4000,
        newest=7000,
        fencing_token=checkpoint.fencing_token,
        run_id="me",
        updated_at=NOW,
    )
    assert checkpoint.fencing_token >= 1


def test_the_first_trade_and_a_watermark_are_not_claimed_where_the_beginning_is_missing(lake):
    put(lake, 2001, 3000, range(2001, 3001))
    found = from_lake(lake, "BTC-USD", name="here", token=1, run_id="me", now=NOW)
    assert (found.first, found.watermark, found.newest) == (0, 0, 3000)


@pytest.mark.parametrize(
    "trouble",
    [CheckpointUnreadable("damaged"), None],
)
def test_an_absent_or_damaged_checkpoint_is_replaced(lake, leases, trouble):
    put(lake, 1, 1000, range(1, 1001))
    kept = Kept(trouble)
    assert rebuilt(lake, kept, leases).rows == 1000
    assert len(kept.saved) == 1


def test_a_newer_one_is_replaced_only_by_force(lake, leases):
    put(lake, 1, 1000, range(1, 1001))
    kept = Kept(CheckpointTooNew("coinbase/BTC-USD", found=9, known=1))
    with pytest.raises(CheckpointTooNew, match="schema version 9"):
        rebuilt(lake, kept, leases)
    assert not kept.saved
    assert rebuilt(lake, kept, leases, force=True).rows == 1000


def test_nothing_is_made_of_an_empty_lake(lake, leases):
    kept = Kept()
    with pytest.raises(NothingToRebuild, match="BTC-USD: the lake here holds no part"):
        rebuilt(lake, kept, leases)
    assert not kept.saved


def test_a_part_that_cannot_be_read_leaves_the_checkpoint_as_it_is(lake, leases):
    put(lake, 1, 1000, range(1, 1001))
    [part] = lake.parts("BTC-USD").parts
    lake.store.put(part.key, b"garbage")
    kept = Kept()
    with pytest.raises(PartUnreadable):
        rebuilt(lake, kept, leases)
    assert not kept.saved


@pytest.mark.parametrize("planner", ["backfill", "ingest"])
def test_nothing_is_saved_while_a_run_is_under_way(lake, leases, planner):
    put(lake, 1, 1000, range(1, 1001))
    kept = Kept()
    name = product_leases_of(leases).run(planner)
    with hold(leases, name, run_id="other", ttl_s=60), pytest.raises(LeaseHeld):
        rebuilt(lake, kept, leases)
    assert not kept.saved


@pytest.mark.parametrize("planner", ["backfill", "ingest"])
def test_nothing_is_saved_once_a_lease_was_taken_away(lake, leases, planner):
    put(lake, 1, 1000, range(1, 1001))

    class Robbed(Kept):
        def load(self, source, product):
            leases.force_release(product_leases_of(leases).run(planner))

    kept = Robbed()
    with pytest.raises(LeaseLost):
        rebuilt(lake, kept, leases)
    assert not kept.saved


def test_its_errors_are_errors_of_state():
    assert issubclass(NothingToRebuild, StateError)
    assert issubclass(CheckpointTooNew, CheckpointUnreadable)
