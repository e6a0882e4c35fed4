"""From an unsharded log, one chain over all symbols, to the sharded one; and back, until the end.

The phases, kept in the old log itself, so that every writer sees them in the transaction in which
it writes:

    old    only the old log is written
    dual   both are written, the old one first; reads are from the old one
    new    both are written, and acknowledged when both are durable; reads are from the new one
    ended  only the new one is written; the old one stays as it is, and takes nothing more

`begin` leads from old to dual, `switch` from dual to new (after everything was compared), `back`
from new to dual, `end` from new to ended. Each may be repeated; a kill anywhere harms nothing.

A record in the new log has its symbol's sequence and link instead of the global ones: the n-th old
record of a symbol is the n-th of its new chain. Everything but sequence, link and hash stays as it
is; the old log keeps the old ones. The result depends on the old log alone, so a backfill can stop
anywhere, and `compare` can recompute both from content: whether everything of the old log is in the
new one, and nothing else.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.amounts import counted
from headrace.errors import ConfigurationError
from headrace.run.report import Status
from headrace.sot.chain import DEFAULT_FIRST_SEQ, Position, follow, genesis, link
from headrace.sot.encoding import HEADER
from headrace.sot.exceptions import (
    ChainError,
    DamagedLog,
    MalformedInput,
    MalformedRecord,
    StoreUnavailable,
    TakenOver,
)
from headrace.sot.frames import Chunk, frame, identity
from headrace.sot.frames import bodies as bodies_of
from headrace.sot.reports import SotReport
from headrace.sot.requests import MigrateRequest
from headrace.sot.sources.places import Place, find_places
from headrace.sot.sources.reading import read_places
from headrace.sot.store import Answer, Batch, Head, SotStore
from headrace.sot.unsharded_log import Cursor, OldLog, Phase, WrongPhase, target_of
from headrace.sot.verified_chain import ChainEnd, read_verified
from headrace.stopping import STOP, StopEvent

_SEQ_AT: Final = 16
_U64: Final = struct.Struct("<Q")


def symbol_in(body: bytes) -> int:
    """The symbol of an old record."""
    found: int = HEADER.unpack_from(body)[4]
    return found


def relink(body: bytes, position: Position) -> tuple[bytes, Position]:
    """The frame of an old record at `position` of its new chain, and the position behind it."""
    changed = b"".join((body[:_SEQ_AT], _U64.pack(position.next_seq), body[_SEQ_AT + 8 :]))
    framed, _ = link(frame(changed), position.hash)
    followed = follow(framed, 0, symbol_in(body), position)
    if followed.error is not None:
        raise followed.error
    return framed, followed.position


def new_chains(bodies: Iterable[bytes]) -> Iterator[tuple[int, bytes, Position]]:
    """What the new log must hold for these old records from the first on."""
    positions: dict[int, Position] = {}
    for body in bodies:
        symbol_id = symbol_in(body)
        position = positions.get(symbol_id) or genesis(symbol_id, DEFAULT_FIRST_SEQ)
        framed, positions[symbol_id] = relink(body, position)
        yield symbol_id, framed, positions[symbol_id]


@dataclass
class _Chain:
    """One symbol of the new log while it is filled."""

    head: Head
    next_seq: int
    position: Position
    before: Position
    frames: list[bytes] = field(default_factory=list)
    size_bytes: int = 0

    def batch(self) -> Batch:
        """What waits to be stored."""
        run = b"".join(self.frames)
        return Batch(self.head.symbol_id, self.head.epoch, self.before, self.position, run)


class Backfill:
    """A backfill under way.

    Args:
        old, new: from where, to where.
        batch: records of a symbol per commit, at most.
        on_records: called with how many old records are durable in the new log by now.
        stop: looked at between batches.
    """

    def __init__(
        self,
        old: OldLog,
        new: SotStore,
        *,
        batch: int = 500,
        on_records: Callable[[int], None] = lambda _: None,
        stop: StopEvent = STOP,
    ) -> None:
        self._old = old
        self._new = new
        self._batch = min(batch, new.limits.records)
        self._on_records = on_records
        self._stop = stop
        self._chains: dict[int, _Chain] = {}
        self._next_seqs: dict[int, int] = {}

    def run(self) -> int:
        """Go on from where the last one stopped, up to the old log's end as it is now.

        Returns:
            How many records were added to the new log.

        Raises:
            DamagedLog: the old log is damaged, or the new one is shorter than was known.
            TakenOver: another process writes the new log.
            StoreUnavailable: one of them does not answer; run it again.
        """
        try:
            return self._run()
        except BaseException:
            # What was under way is unknown now; the next run asks the new log where it ends.
            self._chains.clear()
            raise

    def _run(self) -> int:
        cursor = self._old.cursor()
        end = self._old.head().next_seq
        self._next_seqs = dict(cursor.next_seqs)
        added = since = 0
        at = cursor.old_next
        for body in self._old.bodies(cursor.old_next, end):
            added += self._take(body)
            at += 1
            since += 1
            if since >= 8 * self._batch:
                self._settle(at)
                self._on_records(since)
                since = 0
                if self._stop.is_set():
                    return added
        self._settle(at)
        self._on_records(since)
        return added

    def _take(self, body: bytes) -> int:
        """Take in one old record; 1 if the new log did not have it."""
        symbol_id = symbol_in(body)
        chain = self._chains.get(symbol_id) or self._claimed(symbol_id)
        seq = chain.next_seq
        chain.next_seq = self._next_seqs[symbol_id] = seq + 1
        if seq < chain.head.position.next_seq:
            return 0  # a backfill that was killed had stored it already
        framed, chain.position = relink(body, chain.position)
        chain.frames.append(framed)
        chain.size_bytes += len(framed)
        full = chain.size_bytes >= self._new.limits.size_bytes // 2
        if full or len(chain.frames) >= self._batch:
            self._commit([chain])
        return 1

    def _claimed(self, symbol_id: int) -> _Chain:
        next_seq = self._next_seqs.get(symbol_id, DEFAULT_FIRST_SEQ)
        head = self._new.claim(symbol_id, first_seq=DEFAULT_FIRST_SEQ)
        if head.first_seq != DEFAULT_FIRST_SEQ or head.position.next_seq < next_seq:
            raise DamagedLog(
                self._new.location,
                f"the new log goes to seq {head.position.next_seq - 1} from {head.first_seq}, "
                f"and had everything up to {next_seq - 1}",
                symbol_id=symbol_id,
                hint="Delete the row named cursor in the old log's table migration, and use an "
                "empty new log",
            )
        chain = _Chain(head, next_seq, head.position, head.position)
        self._chains[symbol_id] = chain
        return chain

    def _settle(self, old_next: int) -> None:
        """Make everything taken in durable, then remember how far that is."""
        waiting = [chain for chain in self._chains.values() if chain.frames]
        if waiting:
            self._commit(waiting)
        self._old.note_cursor(Cursor(old_next, dict(self._next_seqs)))

    def _commit(self, chains: list[_Chain]) -> None:
        outcomes = self._new.commit([chain.batch() for chain in chains])
        for chain, outcome in zip(chains, outcomes, strict=True):
            # A batch whose answer was lost may meet itself: then the head is its end.
            if outcome.answer is not Answer.COMMITTED and outcome.head.position != chain.position:
                raise TakenOver(chain.head.symbol_id, chain.head.epoch, outcome.head.epoch)
            chain.before = chain.position
            chain.frames, chain.size_bytes = [], 0


@dataclass(slots=True)
class Comparison:
    """What comparing has shown.

    Attributes:
        records: of the old log, all of them.
        symbols: that they belong to.
        differences: one line each.
    """

    records: int = 0
    symbols: int = 0
    differences: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether the new log holds the old one, and nothing else."""
        return not self.differences


def compare(
    old: OldLog, new: SotStore, *, on_records: Callable[[int], None] = lambda _: None
) -> Comparison:
    """Compare every record, by the digests over whole chains.

    Raises:
        DamagedLog: the old log is damaged.
        StoreUnavailable: one of them does not answer.
    """
    found = Comparison()
    expected: dict[int, Position] = {}
    for symbol_id, _, position in new_chains(old.bodies()):
        expected[symbol_id] = position
        found.records += 1
        if found.records % 1000 == 0:
            on_records(1000)
    on_records(found.records % 1000)
    found.symbols = len(expected)
    found.differences += [str(damage) for damage in new.damages()]
    for symbol_id in sorted(set(expected) | set(new.symbols())):
        difference = _difference(old, new, symbol_id, expected.get(symbol_id))
        if difference:
            found.differences.append(difference)
    return found


def _difference(old: OldLog, new: SotStore, symbol_id: int, expected: Position | None) -> str:
    try:
        head = new.head(symbol_id)
        if head is None or head.position.next_seq == head.first_seq:
            return f"symbol {symbol_id}: the new log has nothing of it" if expected else ""
        if expected is None:
            return f"symbol {symbol_id}: the old log has nothing of it"
        reached = None
        for _, position in read_verified(new, ChainEnd(symbol_id, head)):
            reached = position
    except DamagedLog as damage:
        return str(damage)
    if reached == expected:
        return ""
    seq = _first_difference(old, new, symbol_id)
    return f"symbol {symbol_id}, seq {seq}: the logs differ from here on"


def _first_difference(old: OldLog, new: SotStore, symbol_id: int) -> int:
    """The first sequence of the symbol at which one log has something else, or nothing."""
    theirs = _new_frames(new, symbol_id)
    seq = 0
    for symbol, framed, position in new_chains(old.bodies()):
        if symbol == symbol_id:
            seq = position.next_seq - 1
            if next(theirs, None) != framed:
                return seq
    return seq + 1


def _new_frames(new: SotStore, symbol_id: int) -> Iterator[bytes]:
    for block in new.scan(symbol_id):
        yield from map(frame, bodies_of(block.frames))


@dataclass(slots=True)
class DualReport:
    """What a dual write did.

    Attributes:
        read: records of the source.
        written: new in the old log.
        behind: the new log could not be written, or has history to catch up with; a backfill
            brings it up. Never so once reads are switched.
        refused: why the source was not read on: a record that does not continue the old chain.
    """

    read: int = 0
    written: int = 0
    behind: bool = False
    refused: ChainError | MalformedRecord | None = None


def write_both(
    chunks: Iterable[Chunk],
    old: OldLog,
    new: SotStore,
    *,
    batch: int = 500,
    on_records: Callable[[int], None] = lambda _: None,
    stop: StopEvent = STOP,
) -> DualReport:
    """Append a stream of the engine's globally chained outputs.

    In phase `dual` the old log is the truth: what is durable there counts, and a new log in trouble
    is left behind. In phase `new` a record counts when both have it. A record that does not
    continue the old chain ends the write; what came before it is in both.

    Raises:
        StoreUnavailable: the old log, or in phase `new` either of them.
        WrongPhase: the migration has ended.
        MalformedInput: out of `chunks`, after what came before was written.
    """
    report = DualReport()
    filling = Backfill(old, new, batch=batch)
    for bodies in _in_order(chunks, batch):
        level = old.cursor().old_next == old.head().next_seq
        report.read += len(bodies)
        before = old.head().next_seq
        try:
            old.append(bodies)
        except (ChainError, MalformedRecord) as error:
            report.refused = error
        report.written += old.head().next_seq - before
        phase = old.phase()
        if phase is Phase.NEW or (phase is Phase.DUAL and level and not report.behind):
            try:
                filling.run()
            except StoreUnavailable:
                if phase is Phase.NEW:
                    raise
                report.behind = True
        elif phase is Phase.DUAL:
            report.behind = True
        on_records(len(bodies))
        if report.refused is not None or stop.is_set():
            break
    return report


def _in_order(chunks: Iterable[Chunk], batch: int) -> Iterator[Sequence[bytes]]:
    """Readers gather by symbol; the old chain's own sequence brings the order back."""
    for chunk in chunks:
        bodies = [
            body for pieces in chunk.runs.values() for run in pieces for body in bodies_of(run)
        ]
        bodies.sort(key=lambda body: identity(body)[1])
        for at in range(0, len(bodies), batch):
            yield bodies[at : at + batch]


@dataclass
class Migration:
    """One step under way.

    Attributes:
        on_records: called with how many records are done.
    """

    request: MigrateRequest
    new: SotStore
    stop: StopEvent
    on_records: Callable[[int], None]
    status: Status = Status.DONE
    message: str = ""
    problems: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    def execute(self, run: str) -> SotReport:
        """Do what the request says.

        Raises:
            WrongPhase: the step does not lead on from the phase of the migration.
            HeadraceError: of either log.
        """
        started_s = time.monotonic()
        old = OldLog(self.request.old)
        getattr(self, f"_{self.request.action}")(old)
        phase, head, cursor = old.phase(), old.head(), old.cursor()
        lag = head.next_seq - cursor.old_next
        self.details |= {
            "old": old.location,
            "phase": phase.value,
            "reads": phase.reads,
            "old_records": head.next_seq - 1,
            "behind": lag,
        }
        where = (
            f"phase {phase.value}, reads from the {phase.reads} log, "
            f"{counted(lag, 'record')} behind"
        )
        return SotReport(
            run=run,
            action="migrate",
            status=self.status,
            store=self.new.location,
            message=f"{self.message}; {where}" if self.message else where,
            elapsed_s=time.monotonic() - started_s,
            details=self.details,
            problems=tuple(self.problems),
            stopped=self.stop.is_set(),
        )

    def _status(self, old: OldLog) -> None:
        """Nothing but the report."""

    def _begin(self, old: OldLog) -> None:
        old.step("begin")
        self.message = "both logs are written from now on"

    def _find_source(self) -> list[Place]:
        if not self.request.source:
            raise ConfigurationError("write needs a source", hint="--source FILE, or -")
        return find_places(self.request.source, stop=self.stop)

    def _write(self, old: OldLog) -> None:
        chunks = read_places(self._find_source())
        read_before = old.head().next_seq
        try:
            report = write_both(
                chunks,
                old,
                self.new,
                batch=self.request.batch,
                on_records=self.on_records,
                stop=self.stop,
            )
        except MalformedInput as error:
            written = old.head().next_seq - read_before
            self.status = Status.PARTIAL if written else Status.FAILED
            self.problems.append(str(error))
            self.message = f"{counted(written, 'record')} written"
            return
        self.details |= {"read": report.read, "written": report.written}
        self.message = f"{counted(report.written, 'record')} written"
        if report.refused is not None:
            self.status = Status.PARTIAL if report.written else Status.FAILED
            self.problems.append(str(report.refused))
        if report.behind:
            self.status = Status.PARTIAL
            self.problems.append("the new log is behind; a backfill brings it up")

    def _backfill(self, old: OldLog) -> None:
        if old.phase() not in (Phase.DUAL, Phase.NEW):
            raise WrongPhase("backfill", old.phase())
        added = Backfill(
            old, self.new, batch=self.request.batch, on_records=self.on_records, stop=self.stop
        ).run()
        self.details["added"] = added
        self.message = f"{counted(added, 'record')} added to the new log"

    def _compare(self, old: OldLog) -> None:
        self._compared(old)

    def _switch(self, old: OldLog) -> None:
        if target_of("switch", old.phase()) is old.phase():
            return
        Backfill(old, self.new, batch=self.request.batch, stop=self.stop).run()
        if self._compared(old).equal and not self.stop.is_set():
            old.step("switch")
            self.message += "; reads are switched"

    def _back(self, old: OldLog) -> None:
        old.step("back")
        self.message = "reads are from the old log again; it has all that was written"

    def _end(self, old: OldLog) -> None:
        target_of("end", old.phase())
        if old.phase() is Phase.NEW and not self._compared(old).equal:
            return
        old.step("end")
        self.message = "the old log takes nothing more; it stays as it is"

    def _compared(self, old: OldLog) -> Comparison:
        found = compare(old, self.new, on_records=self.on_records)
        self.details |= {"compared": found.records, "equal": found.equal}
        self.problems += found.differences
        if found.equal:
            self.message = (
                f"{counted(found.records, 'record')} of {counted(found.symbols, 'symbol')} "
                f"{'is' if found.records == 1 else 'are'} equal"
            )
        else:
            self.status = Status.PARTIAL
            self.message = (
                f"{counted(len(found.differences), 'symbol differs', 'symbols differ')}; "
                "nothing was switched"
            )
        return found
