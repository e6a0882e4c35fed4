"""Verify a store: recompute parts of its chains, over several processes.

`headrace.sot.verify_plan` says which parts. `python -m headrace.sot.verify` recomputes one of them,
and is not for people: ranges in by standard input, verdicts out.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import msgspec

from headrace.sot.chain import Position, SentPosition, genesis
from headrace.sot.exceptions import DamagedLog, StoreUnavailable
from headrace.sot.opening import is_embedded, open_store
from headrace.sot.store import Head, SotStore
from headrace.sot.tree.tiles import (
    TILE_RECORDS,
    TileBuilder,
    check_tile,
    check_upper_tiles,
    tile_of,
)
from headrace.sot.verified_chain import CorruptBlock, verify_block, verify_block_alone
from headrace.sot.verify_plan import ChainRange, Mode, plan_symbol, sample, share_out
from headrace.sot.writing.options import child_environment, processors


class Verdict(msgspec.Struct):
    """What recomputing a range has shown.

    Attributes:
        records: how many were recomputed and found good, from its beginning.
        good_until: the sequence of the first record that is not proven good.
        damage: the first damage, as one line; None if there is none.
    """

    symbol_id: int
    records: int
    good_until: str
    damage: str | None = None


def verify_range(store: SotStore, chain_range: ChainRange) -> Verdict:
    """Recompute every record of a range: framing, form, sequence, link, hash and digest.

    Tiles of the symbol's tree that lie in the range are recomputed, too; what is missing is kept.
    """
    position = chain_range.start.position
    first_seq = int(chain_range.first_seq)
    tiles = TileBuilder(position.next_seq - first_seq)
    wrong_tile: DamagedLog | None = None
    first, end = position.next_seq, int(chain_range.end.next_seq)
    symbol_id = chain_range.symbol_id

    def verdict(damage: DamagedLog | None = None) -> Verdict:
        good = position.next_seq - first
        return Verdict(symbol_id, good, str(position.next_seq), damage.message if damage else None)

    if first == end:
        return verdict()
    try:
        for block in store.scan(symbol_id, from_seq=first, to_seq=end - 1):
            digests: list[bytes] = []
            position = verify_block(block, position, end, digests=digests)
            for number, root in tiles.add(b"".join(digests)):
                if root is not None and wrong_tile is None:
                    wrong_tile = check_tile(store, symbol_id, first_seq, 1, number, root)
            if position.next_seq >= end:
                break
    except CorruptBlock as error:
        position = error.position
        return verdict(error.damage)
    except DamagedLog as error:
        if error.seq is not None and error.seq >= end:
            return verdict()
        return verdict(error)
    return verdict(_end_damage(store, chain_range, position) or wrong_tile)


def _end_damage(store: SotStore, chain_range: ChainRange, position: Position) -> DamagedLog | None:
    end = int(chain_range.end.next_seq)
    if position.next_seq < end:
        return DamagedLog(
            store.location,
            "the records are not there",
            symbol_id=chain_range.symbol_id,
            seq=position.next_seq,
            last_seq=end - 1,
        )
    if chain_range.end.digest and position != chain_range.end.position:
        return DamagedLog(
            store.location,
            "the chain does not lead to the digest that the store has for its end",
            symbol_id=chain_range.symbol_id,
            seq=end - 1,
        )
    return None


log = logging.getLogger(__name__)


class VerifyJob(msgspec.Struct, frozen=True):
    """What one process verifies."""

    location: str
    ranges: list[ChainRange]


@dataclass(slots=True)
class SymbolReport:
    """One symbol.

    Attributes:
        records: recomputed and found good.
        good_until: the first sequence that is not proven good; what is before it can be recovered.
        damage: the first damage met, None if there is none.
    """

    symbol_id: int
    records: int = 0
    good_until: int = 0
    damage: str | None = None


@dataclass(slots=True)
class VerifyReport:
    """What verifying has shown.

    Attributes:
        mode: how much was recomputed.
        symbols: by symbol.
        damages: what is wrong with the store itself, beside its chains.
        elapsed_s: all of it.
    """

    mode: Mode
    symbols: list[SymbolReport] = field(default_factory=list)
    damages: list[str] = field(default_factory=list)
    elapsed_s: float = 0.0

    @property
    def good(self) -> bool:
        """Whether nothing wrong was found."""
        return not self.damages and all(symbol.damage is None for symbol in self.symbols)

    @property
    def records(self) -> int:
        """Recomputed and found good."""
        return sum(symbol.records for symbol in self.symbols)


def verify_store(
    store: SotStore,
    mode: Mode = Mode.FULL,
    *,
    symbols: Iterable[int] | None = None,
    processes: int | None = None,
    blocks: int = 8,
    mark: bool = True,
    on_verdict: Callable[[Verdict], None] | None = None,
) -> VerifyReport:
    """Recompute what `mode` says from content.

    Open the store again for it: what a store object has in memory is not looked at again.

    Args:
        store: what to verify.
        mode: how much of it.
        symbols: only these; all if left out.
        processes: over how many to spread; 0 works in this one, None decides by the store.
        blocks: of each symbol, when sampled.
        mark: remember how far each symbol was found good (not when sampled).
        on_verdict: called with each range that is done, from several threads.

    Raises:
        StoreUnavailable: the store does not answer; nothing was concluded.
    """
    started_s = time.monotonic()
    report = VerifyReport(mode)
    by_symbol: dict[int, SymbolReport] = {}
    report.damages = [damage.message for damage in store.damages()]
    heads: dict[int, Head] = {}
    ranges: list[ChainRange] = []
    for symbol_id in sorted(symbols) if symbols is not None else store.symbols():
        by_symbol[symbol_id] = SymbolReport(symbol_id)
        try:
            head = store.head(symbol_id)
        except DamagedLog as error:
            ranges += _prefix(store, error, by_symbol[symbol_id])
            continue
        if head is not None:
            heads[symbol_id] = head
            by_symbol[symbol_id].good_until = head.first_seq
    report.symbols = list(by_symbol.values())
    if mode is Mode.SAMPLED:
        for head in heads.values():
            _verify_sample(store, head, blocks, by_symbol[head.symbol_id])
    else:
        ranges += [
            chain_range for head in heads.values() for chain_range in plan_symbol(store, head, mode)
        ]
        verdicts = _verify_all(store, ranges, processes, on_verdict)
        _gather(verdicts, by_symbol)
        _check_other_tiles(store, heads, ranges, by_symbol)
        if mark:
            _mark(store, heads, by_symbol)
    report.elapsed_s = time.monotonic() - started_s
    return report


def _prefix(store: SotStore, error: DamagedLog, into: SymbolReport) -> list[ChainRange]:
    """What comes before a damage is recomputed all the same, to say that it is good."""
    into.damage = error.message
    into.good_until = error.seq or 0
    if error.seq is None:
        return []
    try:
        first = next(iter(store.scan(into.symbol_id)), None)
    except DamagedLog:
        first = None
    if first is None or first.first_seq >= error.seq:
        return []
    start = genesis(into.symbol_id, first.first_seq)
    return [
        ChainRange(
            into.symbol_id,
            str(first.first_seq),
            SentPosition.of(start),
            SentPosition(str(error.seq), 0, digest=b""),
        )
    ]


def _verify_all(
    store: SotStore,
    ranges: list[ChainRange],
    processes: int | None,
    on_verdict: Callable[[Verdict], None] | None,
) -> list[Verdict]:
    count = processes
    if count is None:
        count = processors() if is_embedded(store.location) else 0
    count = min(count, len(ranges))
    if count < 2:
        verdicts = []
        for chain_range in ranges:
            verdicts.append(verify_range(store, chain_range))
            if on_verdict is not None:
                on_verdict(verdicts[-1])
        return verdicts
    with ThreadPoolExecutor(count) as pool:
        shares = share_out(ranges, count)
        done = [pool.submit(_in_child, store.location, share, on_verdict) for share in shares]
        return [verdict for future in done for verdict in future.result()]


def _in_child(
    location: str, ranges: list[ChainRange], on_verdict: Callable[[Verdict], None] | None
) -> list[Verdict]:
    child = subprocess.Popen(
        [sys.executable, "-m", "headrace.sot.verify"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=child_environment(),
    )
    verdicts: list[Verdict] = []
    with child:
        if child.stdin is None or child.stdout is None:
            raise RuntimeError("a child without pipes")
        child.stdin.write(msgspec.json.encode(VerifyJob(location, ranges)))
        child.stdin.close()
        for line in child.stdout:
            verdicts.append(msgspec.json.decode(line, type=Verdict))
            if on_verdict is not None:
                on_verdict(verdicts[-1])
    if child.returncode or len(verdicts) != len(ranges):
        raise StoreUnavailable(
            location, "verifying", f"a process ended with code {child.returncode}"
        )
    return verdicts


def _gather(verdicts: list[Verdict], by_symbol: dict[int, SymbolReport]) -> None:
    """Put ranges together: what follows a damaged one may be good, but is not reachable."""
    for verdict in sorted(verdicts, key=lambda verdict: int(verdict.good_until)):
        symbol = by_symbol[verdict.symbol_id]
        symbol.records += verdict.records
        if verdict.damage is not None and int(verdict.good_until) < symbol.good_until:
            symbol.damage = None  # it begins earlier than was known
        if symbol.damage is None:
            symbol.good_until = int(verdict.good_until)
            symbol.damage = verdict.damage


def _check_other_tiles(
    store: SotStore,
    heads: dict[int, Head],
    ranges: Iterable[ChainRange],
    by_symbol: dict[int, SymbolReport],
) -> None:
    """Tiles that no range holds whole, and those above level 1; of chains that are good."""
    for chain_range in ranges:
        head, report = heads.get(chain_range.symbol_id), by_symbol[chain_range.symbol_id]
        if head is None or report.damage is not None:
            continue
        number, inside = divmod(int(chain_range.start.next_seq) - head.first_seq, TILE_RECORDS)
        size = head.position.next_seq - head.first_seq
        if inside and (number + 1) * TILE_RECORDS <= size:
            root = tile_of(store, head.symbol_id, head.first_seq, number)
            damage = check_tile(store, head.symbol_id, head.first_seq, 1, number, root)
            report.damage = damage.message if damage else None
    for head in heads.values():
        report = by_symbol[head.symbol_id]
        if report.damage is None and (damage := check_upper_tiles(store, head)):
            report.damage = damage.message


def _mark(store: SotStore, heads: dict[int, Head], by_symbol: dict[int, SymbolReport]) -> None:
    for symbol_id, head in heads.items():
        if by_symbol[symbol_id].damage is None and _is_new(store, symbol_id, head.position):
            try:
                store.mark_verified(symbol_id, head.position)
            except DamagedLog:
                continue  # another symbol of the same file is damaged: it takes no more entries
            except StoreUnavailable as error:
                # What was found good is good all the same, as in a read-only copy.
                log.warning("how far the log was verified is not remembered: %s", error)
                return


def _is_new(store: SotStore, symbol_id: int, position: Position) -> bool:
    return store.verified(symbol_id) != position


def _verify_sample(store: SotStore, head: Head, blocks: int, into: SymbolReport) -> None:
    seen_to = head.first_seq
    for seq in sample(head, blocks):
        if seq < seen_to:
            continue  # in the block looked at last
        try:
            block = next(iter(store.scan(head.symbol_id, from_seq=seq, to_seq=seq)))
            before = None
            if block.first_seq > head.first_seq:
                previous = block.first_seq - 1
                earlier = next(iter(store.scan(head.symbol_id, from_seq=previous, to_seq=previous)))
                before = earlier.after
            damage = verify_block_alone(block, before)
        except DamagedLog as error:
            damage = error
        except StopIteration:
            damage = DamagedLog(
                store.location, "the record is not there", symbol_id=head.symbol_id, seq=seq
            )
        if damage is not None:
            into.damage = damage.message
            into.good_until = damage.seq if damage.seq is not None else into.good_until
            return
        into.records += block.count
        seen_to = block.first_seq + block.count
    into.good_until = head.position.next_seq


def main() -> None:
    """Verify what standard input says; one verdict per line."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=VerifyJob)
    store = open_store(job.location, create=False)
    try:
        for chain_range in job.ranges:
            verdict = verify_range(store, chain_range)
            sys.stdout.buffer.write(msgspec.json.encode(verdict) + b"\n")
            sys.stdout.buffer.flush()
    finally:
        store.close()


if __name__ == "__main__":
    main()
