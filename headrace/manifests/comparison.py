"""What changed in a product's parts since its last manifest, and why.

Names and footers decide where the ids of some parts then are the ids of some parts now and nothing
was added; else the rows are read, those of each part of the manifest by its own range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from headrace.coverage import IntervalSet, Range
from headrace.lake.digest import ContentDigest, content_digest, rows_sha256
from headrace.lake.encoding import PartFooter
from headrace.lake.exceptions import InvalidTrades
from headrace.lake.parts import Part
from headrace.manifests.statement import Change, ChangeKind, Entry
from headrace.trades import empty_trades, rows_between

#: Reads the rows of a part.
Read = Callable[[Part], pa.Table]


#: One part: its range, and on which side it is.
_Ranged = tuple[int, int, tuple[Entry, ...], tuple[tuple[Part, PartFooter], ...]]


@dataclass(frozen=True, slots=True)
class _Group:
    """Parts then and now that share ids with one another and with no others."""

    old: tuple[Entry, ...]
    new: tuple[tuple[Part, PartFooter], ...]

    @property
    def answered_before(self) -> IntervalSet:
        return IntervalSet.from_ranges((entry.lo, entry.hi) for entry in self.old)

    @property
    def answered(self) -> IntervalSet:
        return IntervalSet.from_ranges((part.lo, part.hi) for part, _ in self.new)


def find_changes(
    old: Sequence[Entry], new: Sequence[tuple[Part, PartFooter]], read: Read, *, deep: bool = False
) -> list[Change]:
    """Every range of ids that is not as a manifest says, by rising ids.

    Args:
        old: the entries of the manifest.
        new: the sound parts that count now, and their footers.
        read: called where footers cannot decide.
        deep: read every row, and hold it against its SHA-256.

    Raises:
        ObjectMissing, PartUnreadable, StoreError: as `read` does.
    """
    changes: list[Change] = []
    for group in _groups(old, new):
        changes += _compare(group, read, deep=deep)
    return changes


def summarized(changes: Iterable[Change]) -> tuple[Change, ...]:
    """The same, with touching ranges of one kind as one, which has no detail then."""
    found: list[Change] = []
    for kind, of_kind in groupby(sorted(changes, key=_by_kind), key=lambda each: each.kind):
        for change in of_kind:
            last = found[-1] if found else None
            if last is not None and last.kind is kind and last.hi + 1 == change.lo:
                found[-1] = Change(kind, last.lo, change.hi, last.rows + change.rows)
            else:
                found.append(change)
    return tuple(found)


def _by_kind(change: Change) -> tuple[str, int]:
    return change.kind.value, change.lo


def _groups(old: Sequence[Entry], new: Sequence[tuple[Part, PartFooter]]) -> Iterator[_Group]:
    """A group ends where no range goes on."""
    ranges: list[_Ranged] = [(entry.lo, entry.hi, (entry,), ()) for entry in old]
    ranges += [(part.lo, part.hi, (), ((part, footer),)) for part, footer in new]
    ranges.sort(key=lambda each: each[:2])
    at = 0
    while at < len(ranges):
        begin, end = at, ranges[at][1]
        while at < len(ranges) and ranges[at][0] <= end:
            end = max(end, ranges[at][1])
            at += 1
        within = ranges[begin:at]
        yield _Group(
            tuple(entry for each in within for entry in each[2]),
            tuple(part for each in within for part in each[3]),
        )


def _compare(group: _Group, read: Read, *, deep: bool) -> Iterator[Change]:
    before, now = group.answered_before, group.answered
    if group.old and before == now and not deep and _footers_agree(group):
        yield from _same_rows(group)
        return
    found: list[Change] = []
    for lo, hi in before - now:
        rows = sum(entry.rows for entry in group.old if entry.lo <= hi and entry.hi >= lo)
        detail = f"no part answers for it any more; the manifest has {rows:,} trades there"
        found.append(Change(ChangeKind.LOST, lo, hi, rows, detail))
    kept = (entry for entry in group.old if now.contains(entry.lo, entry.hi))
    found += filter(None, (_compare_rows(entry, group, read) for entry in kept))
    if group.old and not found:
        found += _same_rows(group)
    for lo, hi in now - before:
        if len(group.new) == 1 and not group.old:
            rows = group.new[0][1].rows
        else:
            rows = _rows(group, lo, hi, read).num_rows
        found.append(Change(ChangeKind.NEW, lo, hi, rows))
    yield from sorted(found, key=lambda change: change.lo)


def _footers_agree(group: _Group) -> bool:
    rows = sum(footer.rows for _, footer in group.new)
    digest = sum((footer.content for _, footer in group.new), ContentDigest())
    return rows == sum(entry.rows for entry in group.old) and digest == sum(
        (entry.content for entry in group.old), ContentDigest()
    )


def _same_rows(group: _Group) -> Iterator[Change]:
    """What happened to parts that hold the rows which the manifest says."""
    names = [(entry.lo, entry.hi) for entry in group.old]
    lo, hi = names[0][0], names[-1][1]
    rows = sum(entry.rows for entry in group.old)
    if names != [(part.lo, part.hi) for part, _ in group.new]:
        detail = f"{len(names)} parts are {len(group.new)} now: same rows"
        yield Change(ChangeKind.MERGED, lo, hi, rows, detail)
    elif any(
        entry.fetched_at != footer.fetched_at
        for entry, (_, footer) in zip(group.old, group.new, strict=True)
    ):
        yield Change(ChangeKind.HEALED, lo, hi, rows, "fetched again: same rows")


def _compare_rows(entry: Entry, group: _Group, read: Read) -> Change | None:
    """What became of the rows of one part of the manifest; None if they are all there."""
    lo, hi = entry.lo, entry.hi
    rows = _rows(group, lo, hi, read)
    if _is(rows, entry):
        return None
    found = rows.num_rows
    outside = _without(rows, entry.long_holes)
    if outside.num_rows < found and _is(outside, entry):
        light = found - outside.num_rows
        detail = f"{light:,} trades came to light in its holes; the others are the same"
        return Change(ChangeKind.HEALED, lo, hi, light, detail)
    if found < entry.rows:
        gone = entry.rows - found
        detail = f"{gone:,} of {entry.rows:,} trades are gone"
        return Change(ChangeKind.LOST, lo, hi, gone, detail)
    detail = f"other trades than the {entry.rows:,} of the manifest, whose digest is {entry.digest}"
    return Change(ChangeKind.CHANGED, lo, hi, entry.rows, detail)


def _rows(group: _Group, lo: int, hi: int, read: Read) -> pa.Table:
    """The rows of a range now, each id once, as every reader of ours takes them."""
    tables, begin = [empty_trades()], lo
    for part, footer in group.new:
        if part.hi >= begin and part.lo <= hi:
            if footer.rows:
                tables.append(rows_between(read(part), begin, hi))
            begin = part.hi + 1
    return pa.concat_tables(tables)


def _is(rows: pa.Table, entry: Entry) -> bool:
    if rows.num_rows != entry.rows or rows_sha256(rows) != entry.sha256:
        return False
    try:
        return content_digest(rows) == entry.content
    except InvalidTrades:
        return False


def _without(rows: pa.Table, ranges: Iterable[Range]) -> pa.Table:
    """The rows whose ids lie in none of the ranges, which rise."""
    left, begin = [empty_trades()], 1
    for lo, hi in ranges:
        left.append(rows_between(rows, begin, lo - 1))
        begin = hi + 1
    ids = rows["trade_id"]
    end = ids[-1].as_py() if rows.num_rows else 0
    left.append(rows_between(rows, begin, end))
    return pa.concat_tables(left)
