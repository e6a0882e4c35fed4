"""What an audit finds in one product, and what it leaves alone."""

from __future__ import annotations

import json
import shutil

import pytest

from headrace.audit.auditor import run_audit
from headrace.exchange.exceptions import UnknownProduct
from headrace.lake.exceptions import ObjectMissing
from headrace.lake.failing_store import Fault, FaultyStore, denied
from headrace.lake.raw import RawLake
from headrace.pull.exceptions import CheckpointTooNew, CheckpointUnreadable
from headrace.run.report import Status
from headrace.stopping import StopEvent
from tests.lake_samples import FETCHED_AT, trades
from tests.support.audits import PRODUCT, Bench, exchange, kinds, only, rows
from tests.support.exchange import FakeClient, GivingUp


def complete(bench: Bench) -> None:
    bench.keep(1, 2_000)
    bench.keep(2_001, 5_000)
    bench.save_checkpoint()


@pytest.mark.parametrize("deep", [False, True])
def test_a_complete_product_has_no_findings(bench: Bench, deep: bool) -> None:
    complete(bench)
    found = bench.audit(5_000, deep=deep)
    assert (found.status, found.findings, found.error) == (Status.DONE, (), "")
    assert (found.parts, found.newest, found.asked) == (2, 5_000, True)
    assert (found.counted.rows, found.counted.watermark) == (5_000, 5_000)
    assert found.counted.digest == str(digest_of(bench))


def digest_of(bench: Bench) -> object:
    from headrace.lake import content_digest

    return content_digest(bench.raw.read(PRODUCT))


def test_one_request_and_no_row_is_read_but_the_newest(bench: Bench) -> None:
    bench.keep(1, 2_000)
    newest = bench.keep(2_001, 5_000)
    bench.save_checkpoint()
    read: list[str] = []

    class Watched(FaultyStore):
        def get(self, key: str) -> bytes:
            read.append(key)
            return super().get(key)

    client = exchange(5_000)
    raw = RawLake(Watched(bench.raw.store), "coinbase", bench.raw.grid)
    found = run_audit(raw, PRODUCT, checkpoints=bench.checkpoints, client=client)
    assert found.status is Status.DONE
    assert client.cursors == [None]
    assert set(read) == {newest.key}


def test_another_history_under_the_same_ids_is_found(bench: Bench) -> None:
    complete(bench)
    client = GivingUp(range(1, 6_001))
    found = run_audit(bench.raw, PRODUCT, checkpoints=bench.checkpoints, client=client)
    assert found.status is Status.PARTIAL
    finding = only(found, "another_history")
    assert finding.wrong
    assert "differs from the one that is stored" in finding.message
    assert (found.asked, found.newest) == (False, 5_000)


@pytest.mark.parametrize("shown", [[], range(4_990, 4_996), range(5_990, 6_001)])
def test_a_newest_page_that_denies_what_is_stored_proves_nothing(bench: Bench, shown) -> None:
    complete(bench)
    client = GivingUp(shown, rows=rows)
    found = run_audit(bench.raw, PRODUCT, checkpoints=bench.checkpoints, client=client)
    assert found.status is Status.PARTIAL
    assert "the newest id is not known" in found.error


def test_gaps_are_ours_and_holes_are_the_exchanges(bench: Bench) -> None:
    bench.keep(1, 2_000, range(1, 500))
    bench.keep(3_001, 4_000)
    found = bench.audit(4_500)
    missing = [f.range for f in found.findings if f.kind == "missing"]
    assert missing == [(2_001, 3_000), (4_001, 4_500)]
    assert only(found, "hole").range == (500, 2_000)
    assert found.counted.absent_ids == 1_501
    assert (found.status, found.counted.watermark) == (Status.PARTIAL, 2_000)
    assert [f.wrong for f in found.findings] == sorted(
        (f.wrong for f in found.findings), reverse=True
    )


def test_offline_the_newest_is_the_newest_stored(bench: Bench) -> None:
    complete(bench)
    found = bench.audit()
    assert (found.status, found.newest, found.asked) == (Status.DONE, 5_000, False)


def test_what_is_known_is_not_asked_again(bench: Bench) -> None:
    complete(bench)
    client = FakeClient([9_000])
    found = run_audit(bench.raw, PRODUCT, checkpoints=bench.checkpoints, client=client, known=5_000)
    assert (found.status, found.newest, client.cursors) == (Status.DONE, 5_000, [])


def test_an_exchange_that_shows_an_old_newest_id_takes_nothing_back(bench: Bench) -> None:
    complete(bench)
    assert bench.audit(4_000).newest == 5_000


def test_overlapping_parts_that_both_hold_trades_are_duplicates(bench: Bench) -> None:
    bench.keep(1, 1_000)
    bench.keep(501, 1_500)
    bench.keep(1_400, 2_000, [1_900])
    found = bench.audit()
    ranges = [f.range for f in found.findings if f.kind == "duplicate"]
    assert ranges == [(501, 1_000), (1_400, 1_500)]
    assert found.counted.digest is None
    deep = bench.audit(deep=True)
    assert "the same 500 trades" in only(deep, "duplicate").message
    assert only(deep, "overlap").range == (1_400, 1_500)
    assert "not the same" in only(deep, "overlap").message


def test_a_piece_within_a_longer_part_is_a_leftover(bench: Bench) -> None:
    part = bench.keep(501, 700)
    bench.keep(1, 1_000)
    bench.save_checkpoint()
    found = bench.audit()
    assert kinds(found) == ["leftover"]
    assert only(found, "leftover").keys == (part.key,)
    assert found.counted.rows == 1_000


@pytest.mark.parametrize("content", [b"", b"PAR1 but no more", b"x" * 100_000])
def test_files_that_are_no_parts_are_named(bench: Bench, content: bytes) -> None:
    complete(bench)
    bench.path(bench.raw.parts(PRODUCT).parts[0]).write_bytes(content)
    found = bench.audit()
    assert kinds(found) == ["unreadable"]
    assert "part-000000000001-000000002000.parquet" in only(found, "unreadable").message
    assert (found.status, found.counted.watermark) == (Status.PARTIAL, 0)


def test_a_part_under_the_name_of_another(bench: Bench) -> None:
    complete(bench)
    first = bench.path(bench.raw.parts(PRODUCT).parts[0])
    shutil.copy(first, first.with_name("part-000000005001-000000007000.parquet"))
    found = bench.audit(7_000)
    finding = only(found, "misnamed")
    assert finding.range == (5_001, 7_000)
    assert "[1, 2000]" in finding.message


def test_a_part_of_a_newer_version(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    complete(bench)
    monkeypatch.setattr("headrace.lake.encoding.FOOTER_VERSION", 0)
    found = bench.audit()
    assert set(kinds(found)) == {"newer"}
    assert found.findings[0].repair == "upgrade headrace"


def test_foreign_files_are_noted_and_harmless(bench: Bench) -> None:
    complete(bench)
    folder = bench.path(bench.raw.parts(PRODUCT).parts[0]).parent
    (folder / "notes.txt").write_text("mine")
    (folder / "part-1-2.parquet").write_text("none of ours")
    found = bench.audit()
    assert kinds(found) == ["foreign", "foreign"]
    assert found.status is Status.DONE


def test_footers_cannot_tell_what_rows_can(bench: Bench) -> None:
    complete(bench)
    part = bench.raw.parts(PRODUCT).parts[0]
    tampered(bench, part)
    assert bench.audit().status is Status.DONE
    found = bench.audit(deep=True)
    assert kinds(found) == ["unreadable"]
    assert "digest" in only(found, "unreadable").message


def tampered(bench: Bench, part: object) -> None:
    """One price is changed, under the footer of the true one."""
    from headrace.lake.encoding import encode_part

    table, footer = bench.raw.read_part(part)
    prices = table["price"].to_pylist()
    prices[17] = "1.0"
    changed = table.set_column(2, table.schema.field("price"), [prices])
    bench.raw.store.put(part.key, encode_part(changed, footer))


def test_a_part_that_a_merge_takes_away_is_no_finding(bench: Bench) -> None:
    pieces = [bench.keep(n, n + 999) for n in (1, 1_001, 2_001)]
    store = bench.raw.store
    tail, merged = store.tail, []

    def merging_tail(key: str, size_bytes: int) -> bytes:
        if not merged:
            merged.append(key)
            store.tail = tail
            bench.raw.merge(PRODUCT, pieces)
            raise ObjectMissing("reading", key, "it is gone")
        return tail(key, size_bytes)

    store.tail = merging_tail
    found = bench.audit()
    assert merged
    assert (kinds(found), found.parts) == (["checkpoint_absent"], 1)


def test_the_checkpoint_against_the_lake(bench: Bench) -> None:
    complete(bench)
    bench.save_checkpoint(covered=((1, 6_000),), watermark=6_000)
    assert only(bench.audit(), "checkpoint_ahead").range == (5_001, 6_000)
    bench.save_checkpoint(covered=((1, 2_000),), watermark=2_000)
    behind = bench.audit()
    assert only(behind, "checkpoint_behind").range == (2_001, 5_000)
    assert behind.status is Status.DONE
    bench.save_checkpoint(rows=4_999)
    assert "4,999" in only(bench.audit(), "checkpoint_ahead").message
    bench.save_checkpoint(rows=0)
    assert bench.audit().findings == ()
    bench.save_checkpoint(watermark=9_999)
    assert "9999" in only(bench.audit(), "checkpoint_ahead").message


@pytest.mark.parametrize(
    ("error", "repair"),
    [
        (CheckpointUnreadable("damaged"), "headrace checkpoint rebuild"),
        (CheckpointTooNew("here", found=9, known=1), "upgrade headrace"),
    ],
)
def test_a_checkpoint_that_cannot_be_used(bench: Bench, error: Exception, repair: str) -> None:
    complete(bench)
    bench.checkpoints.stored[PRODUCT] = error
    found = bench.audit()
    assert only(found, "checkpoint_unreadable").repair.startswith(repair)
    assert found.status is Status.PARTIAL


def test_an_exchange_that_does_not_know_the_product(bench: Bench) -> None:
    complete(bench)

    class Refusing(FakeClient):
        def page(self, *args: object, **kwargs: object) -> object:
            raise UnknownProduct("the exchange does not know it (404)", product=PRODUCT)

    found = run_audit(bench.raw, PRODUCT, checkpoints=bench.checkpoints, client=Refusing([1]))
    assert "404" in found.error
    assert (found.status, found.parts, found.asked) == (Status.PARTIAL, 2, False)


def test_the_newest_id_of_another_source_says_nothing(bench: Bench) -> None:
    bench.raw.write(
        PRODUCT, 1, 10, trades(range(1, 11)), source="api.example.com", fetched_at=FETCHED_AT
    )
    found = bench.audit(9_000)
    assert "api.example.com, not from localhost" in found.error
    assert (found.newest, found.counted.missing.ranges) == (10, ())


def test_a_store_that_fails_is_no_gap(bench: Bench) -> None:
    complete(bench)
    store = FaultyStore(bench.raw.store)
    store.script("tail", Fault(denied, times=None))
    raw = RawLake(store, "coinbase", bench.raw.grid)
    found = run_audit(raw, PRODUCT, checkpoints=bench.checkpoints)
    assert (found.status, found.findings) == (Status.FAILED, ())
    assert "scripted refusal" in found.error


def test_a_stop_ends_the_audit_and_is_reported(bench: Bench) -> None:
    complete(bench)
    stop = StopEvent()
    stop.set()
    found = run_audit(bench.raw, PRODUCT, checkpoints=bench.checkpoints, stop=stop)
    assert (found.status, found.error) == (Status.FAILED, "stopped on request")


def test_the_json_form_is_plain(bench: Bench) -> None:
    bench.keep(1, 1_000, [1])
    reported = json.loads(json.dumps(bench.audit(2_000).as_json()))
    assert reported["missing"] == [[1_001, 2_000]]
    assert reported["kinds"] == {"missing": 1, "checkpoint_absent": 1}
    assert reported["findings"][0]["kind"] == "missing"
