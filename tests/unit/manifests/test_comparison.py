"""What changed since a manifest, and why: decided from footers where they can, else from rows."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.lake import Part, RawLake, open_lake
from headrace.lake.digest import rows_sha256
from headrace.manifests.comparison import find_changes, summarized
from headrace.manifests.statement import Change, ChangeKind, Entry
from tests.lake_samples import FETCHED_AT, SOURCE, trades

PRODUCT = "BTC-USD"


@dataclass
class Compared:
    """A lake of one product, and the entries of a manifest of it."""

    raw: RawLake
    entries: list[Entry] = field(default_factory=list)
    read: list[str] = field(default_factory=list)

    def keep(self, lo: int, hi: int, rows: pa.Table | None = None, **options: object) -> Part:
        rows = trades(range(lo, hi + 1)) if rows is None else rows
        given = {"source": SOURCE, "fetched_at": FETCHED_AT, **options}
        return self.raw.write(PRODUCT, lo, hi, rows, **given).part

    def state(self) -> None:
        """Take the parts as they are for those of the manifest."""
        self.entries = []
        for part in self.raw.parts(PRODUCT).parts:
            table, footer = self.raw.read_part(part)
            self.entries.append(Entry.of(footer, part.size_bytes, rows_sha256(table)))

    def changes(self, *, deep: bool = False) -> list[Change]:
        parts = [(part, self.raw.footer(part)) for part in self.raw.parts(PRODUCT).parts]

        def read(part: Part) -> pa.Table:
            self.read.append(str(part.name))
            return self.raw.read_part(part)[0]

        return find_changes(self.entries, parts, read, deep=deep)

    def found(self, *, deep: bool = False) -> list[tuple[str, int, int, int]]:
        return [(str(c.kind), c.lo, c.hi, c.rows) for c in self.changes(deep=deep)]


@pytest.fixture
def lake(tmp_path: Path) -> Compared:
    return Compared(open_lake(tmp_path).raw("coinbase", cell_pages=5))


def other_price(ids: range, at: int) -> pa.Table:
    table = trades(ids)
    prices = table["price"].to_pylist()
    prices[at] = "6001.99000000"
    return table.set_column(2, table.schema.field("price"), pa.array(prices, pa.string()))


def test_nothing_changed_and_no_row_is_read(lake: Compared) -> None:
    lake.keep(1, 1_000)
    lake.keep(1_001, 2_000)
    lake.state()
    assert (lake.found(), lake.read) == ([], [])
    assert lake.found(deep=True) == []
    assert len(lake.read) == 2


def test_new_ranges_count_their_trades_without_reading_them(lake: Compared) -> None:
    lake.keep(1, 1_000)
    lake.state()
    lake.keep(1_001, 2_000, trades(range(1_001, 2_001, 2)))
    lake.keep(4_001, 5_000)
    assert lake.found() == [("new", 1_001, 2_000, 500), ("new", 4_001, 5_000, 1_000)]
    assert lake.read == []


def test_a_merge_of_the_same_ranges_needs_no_row(lake: Compared) -> None:
    pieces = [lake.keep(1, 1_000), lake.keep(1_001, 2_000)]
    lake.state()
    lake.raw.merge(PRODUCT, pieces)
    assert lake.found() == [("merged", 1, 2_000, 2_000)]
    assert lake.read == []


def test_a_merge_with_what_came_since_is_held_against_the_rows_of_each_piece(
    lake: Compared,
) -> None:
    pieces = [lake.keep(1, 1_000), lake.keep(1_001, 2_000)]
    lake.state()
    pieces.append(lake.keep(2_001, 3_000))
    lake.raw.merge(PRODUCT, pieces)
    assert lake.found() == [("merged", 1, 2_000, 2_000), ("new", 2_001, 3_000, 1_000)]
    assert lake.read


def test_a_part_that_is_gone_is_lost_with_its_trades(lake: Compared) -> None:
    part = lake.keep(1, 1_000)
    lake.keep(1_001, 2_000)
    lake.state()
    lake.raw.store.delete(part.key)
    assert lake.found() == [("lost", 1, 1_000, 1_000)]


@pytest.mark.parametrize("merged", [False, True])
def test_another_price_under_a_right_footer_is_a_change(lake: Compared, merged: bool) -> None:
    pieces = [lake.keep(1, 1_000), lake.keep(1_001, 2_000)]
    lake.state()
    lake.keep(1, 1_000, other_price(range(1, 1_001), 10), replace=True)
    if merged:
        lake.raw.merge(PRODUCT, pieces)
    assert lake.found() == [("changed", 1, 1_000, 1_000)]


def test_rows_that_are_missing_from_a_part_are_lost(lake: Compared) -> None:
    lake.keep(1, 1_000)
    lake.state()
    lake.keep(1, 1_000, trades(range(1, 999)), replace=True)
    assert lake.found() == [("lost", 1, 1_000, 2)]


def test_the_same_rows_fetched_again_are_healed(lake: Compared) -> None:
    lake.keep(1, 1_000)
    lake.state()
    lake.keep(1, 1_000, fetched_at=FETCHED_AT.replace(year=2027), replace=True)
    assert lake.found() == [("healed", 1, 1_000, 1_000)]


def test_trades_that_came_to_light_in_a_hole_are_healed_and_elsewhere_a_change(
    lake: Compared,
) -> None:
    lake.keep(1, 3_000, trades([1, 2_900]))
    lake.state()
    lake.keep(1, 3_000, trades([1, 50, 2_900]), replace=True)
    assert lake.found() == [("healed", 1, 3_000, 1)]
    lake.keep(1, 3_000, trades([1, 50, 2_900, 2_950]), replace=True)
    assert lake.found() == [("changed", 1, 3_000, 2)]


def test_rows_behind_a_footer_that_lies_show_in_a_deep_comparison(lake: Compared) -> None:
    part = lake.keep(1, 1_000)
    lake.state()
    path = Path(lake.raw.store.place(part.key))
    honest = path.read_bytes()
    lake.keep(1, 1_000, other_price(range(1, 1_001), 10), replace=True)
    forged, true = lake.raw.footer(part).digest, lake.entries[0].digest
    path.write_bytes(path.read_bytes().replace(forged.encode(), true.encode()))
    assert honest != path.read_bytes()
    assert lake.found() == []
    assert lake.found(deep=True) == [("changed", 1, 1_000, 1_000)]


def test_a_summary_joins_ranges_of_a_kind_that_touch() -> None:
    new, merged = ChangeKind.NEW, ChangeKind.MERGED
    changes = [Change(new, 1, 10, 5, "a"), Change(merged, 11, 20, 1), Change(new, 21, 30, 2)]
    changes += [Change(new, 31, 40, 3)]
    assert summarized(changes) == (
        Change(merged, 11, 20, 1),
        Change(new, 1, 10, 5, "a"),
        Change(new, 21, 40, 5),
    )


def test_the_digest_of_rows_is_that_of_their_lines() -> None:
    lines = [
        "{trade_id},{us},{price},{size},{side}\n".format(
            us=int(row["time"].timestamp()) * 1_000_000 + row["time"].microsecond, **row
        )
        for row in trades(range(3, 40_000, 7)).to_pylist()
    ]
    expected = hashlib.sha256("".join(lines).encode()).hexdigest()
    table = trades(range(3, 40_000, 7))
    assert rows_sha256(table) == expected
    parts = pa.concat_tables([table.slice(0, 100), table.slice(100)])
    assert rows_sha256(parts) == expected
    assert rows_sha256(table.slice(0, 0)) == hashlib.sha256(b"").hexdigest()
