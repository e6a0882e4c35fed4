"""Verify a store, over several processes where that is faster.

`python -m headrace.sot.verify` is such a process, and not for people: stretches in by standard
input, verdicts out.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import msgspec

from headrace.sot.chain import Position, genesis
from headrace.sot.exceptions import DamagedLog, StoreUnavailable
from headrace.sot.opening import is_embedded, open_store
from headrace.sot.store import Head, SotStore
from headrace.sot.stretches import (
    Mode,
    Stretch,
    Verdict,
    deal,
    plan_symbol,
    sample,
    verify_block_alone,
    verify_stretch,
)
from headrace.sot.writing.options import processors

log = logging.getLogger(__name__)


class VerifyJob(msgspec.Struct, frozen=True):
    """What one process verifies."""

    location: str
    stretches: list[Stretch]


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
    seed: int = 0,
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
        seed: of the sample.
        mark: remember how far each symbol was found good (not when sampled).
        on_verdict: called with each stretch that is done, from several threads.

    Raises:
        StoreUnavailable: the store does not answer; nothing was concluded.
    """
    started_s = time.monotonic()
    report = VerifyReport(mode)
    by_symbol: dict[int, SymbolReport] = {}
    report.damages = [damage.message for damage in store.damages()]
    heads: dict[int, Head] = {}
    stretches: list[Stretch] = []
    for symbol_id in sorted(symbols) if symbols is not None else store.symbols():
        by_symbol[symbol_id] = SymbolReport(symbol_id)
        try:
            head = store.head(symbol_id)
        except DamagedLog as error:
            stretches += _prefix(store, error, by_symbol[symbol_id])
            continue
        if head is not None:
            heads[symbol_id] = head
            by_symbol[symbol_id].good_until = head.first_seq
    report.symbols = list(by_symbol.values())
    if mode is Mode.SAMPLED:
        for head in heads.values():
            _verify_sample(store, head, blocks, seed, by_symbol[head.symbol_id])
    else:
        stretches += [
            stretch for head in heads.values() for stretch in plan_symbol(store, head, mode)
        ]
        verdicts = _verify_all(store, stretches, processes, on_verdict)
        _gather(verdicts, by_symbol)
        if mark:
            _mark(store, heads, by_symbol)
    report.elapsed_s = time.monotonic() - started_s
    return report


def _prefix(store: SotStore, error: DamagedLog, into: SymbolReport) -> list[Stretch]:
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
        Stretch(
            into.symbol_id,
            str(start.next_seq),
            start.hash,
            start.digest,
            str(error.seq),
            end_hash=0,
            end_digest=None,
        )
    ]


def _verify_all(
    store: SotStore,
    stretches: list[Stretch],
    processes: int | None,
    on_verdict: Callable[[Verdict], None] | None,
) -> list[Verdict]:
    count = processes
    if count is None:
        count = processors() if is_embedded(store.location) else 0
    count = min(count, len(stretches))
    if count < 2:
        verdicts = []
        for stretch in stretches:
            verdicts.append(verify_stretch(store, stretch))
            if on_verdict is not None:
                on_verdict(verdicts[-1])
        return verdicts
    with ThreadPoolExecutor(count) as pool:
        hands = deal(stretches, count)
        done = [pool.submit(_in_child, store.location, hand, on_verdict) for hand in hands]
        return [verdict for future in done for verdict in future.result()]


def _in_child(
    location: str, stretches: list[Stretch], on_verdict: Callable[[Verdict], None] | None
) -> list[Verdict]:
    child = subprocess.Popen(
        [sys.executable, "-m", "headrace.sot.verify"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=_child_environment(),
    )
    verdicts: list[Verdict] = []
    with child:
        if child.stdin is None or child.stdout is None:
            raise RuntimeError("a child without pipes")
        child.stdin.write(msgspec.json.encode(VerifyJob(location, stretches)))
        child.stdin.close()
        for line in child.stdout:
            verdicts.append(msgspec.json.decode(line, type=Verdict))
            if on_verdict is not None:
                on_verdict(verdicts[-1])
    if child.returncode or len(verdicts) != len(stretches):
        raise StoreUnavailable(
            location, "verifying", f"a process ended with code {child.returncode}"
        )
    return verdicts


def _gather(verdicts: list[Verdict], by_symbol: dict[int, SymbolReport]) -> None:
    """Put stretches together: what follows a damaged one may be good, but is not reachable."""
    for verdict in sorted(verdicts, key=lambda verdict: int(verdict.good_until)):
        symbol = by_symbol[verdict.symbol_id]
        symbol.records += verdict.records
        if verdict.damage is not None and int(verdict.good_until) < symbol.good_until:
            symbol.damage = None  # it begins earlier than was known
        if symbol.damage is None:
            symbol.good_until = int(verdict.good_until)
            symbol.damage = verdict.damage


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


def _verify_sample(store: SotStore, head: Head, blocks: int, seed: int, into: SymbolReport) -> None:
    seen_to = head.first_seq
    for seq in sample(head, blocks, seed):
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


def _child_environment() -> dict[str, str]:
    """The environment in which a child finds the same modules as this process."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def main() -> None:
    """Verify what standard input says; one verdict per line."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=VerifyJob)
    store = open_store(job.location, create=False)
    try:
        for stretch in job.stretches:
            verdict = verify_stretch(store, stretch)
            sys.stdout.buffer.write(msgspec.json.encode(verdict) + b"\n")
            sys.stdout.buffer.flush()
    finally:
        store.close()


if __name__ == "__main__":
    main()
