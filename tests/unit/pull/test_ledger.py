"""The books of a product's run."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.coverage import IntervalSet
from headrace.pull.ledger import Ledger
from headrace.pull.report import ChunkReceipt


def test_a_chunk_that_came_adds_its_rows_its_holes_and_its_range():
    ledger = Ledger(IntervalSet.of((1, 1000)), rows=900, holes=IntervalSet.of((1, 100)))
    ledger.enter(
        ChunkReceipt((1001, 4000), ((1001, 4000),), rows=1500, holes=((2001, 3000),), pages=2)
    )
    assert ledger.covered == IntervalSet.of((1, 4000))
    assert ledger.holes == IntervalSet.of((1, 100), (2001, 3000))
    assert (ledger.rows, ledger.new_rows, ledger.pages) == (2400, 1500, 2)
    assert ledger.changed
    assert ledger.brought
    assert not ledger.failed
    assert ledger.first_error == ""


def test_a_chunk_that_failed_is_remembered_with_the_first_reason():
    ledger = Ledger(IntervalSet.of((1, 1000)), rows=1000)
    ledger.enter(ChunkReceipt((1001, 2000), error="503"))
    ledger.enter(ChunkReceipt((3001, 4000), error="404"))
    assert ledger.failed == IntervalSet.of((1001, 2000), (3001, 4000))
    assert ledger.first_error == "503"
    assert ledger.covered == IntervalSet.of((1, 1000))
    assert (ledger.rows, ledger.new_rows) == (1000, 0)
    assert not ledger.changed
    assert not ledger.brought


def test_of_a_chunk_that_was_stopped_the_rest_counts_as_failed():
    ledger = Ledger()
    ledger.enter(ChunkReceipt((1, 5000), ((3001, 5000),), rows=2000, pages=2, error="stopped"))
    assert ledger.failed == IntervalSet.of((1, 3000))
    assert ledger.covered == IntervalSet.of((3001, 5000))
    assert ledger.rows == ledger.new_rows == 2000


def test_what_failed_and_came_later_is_no_failure_any_more():
    ledger = Ledger()
    ledger.enter(ChunkReceipt((1, 1000), error="503"))
    ledger.enter(ChunkReceipt((1, 1000), ((1, 1000),), rows=1000))
    assert not ledger.failed


def test_what_another_run_had_stored_is_not_counted_as_ours():
    ledger = Ledger()
    ledger.enter(ChunkReceipt((1, 1000), ((1, 1000),), rows=1000, written=False))
    assert ledger.new_rows == 0
    assert ledger.covered == IntervalSet.of((1, 1000))


CHUNKS = st.permutations([(lo, lo + 999) for lo in range(1, 10_001, 1000)])


@given(CHUNKS, st.sets(st.integers(0, 9)))
def test_the_order_of_receipts_does_not_matter_to_the_books(chunks, failing):
    ledger = Ledger()
    for at, span in enumerate(chunks):
        answered = () if at in failing else (span,)
        error = "503" if at in failing else ""
        ledger.enter(ChunkReceipt(span, answered, rows=1000 if answered else 0, error=error))
    lost = IntervalSet.from_ranges(chunks[at] for at in failing)
    assert ledger.failed == lost
    assert ledger.covered == IntervalSet.of((1, 10_000)) - lost
    assert ledger.rows == ledger.covered.count
