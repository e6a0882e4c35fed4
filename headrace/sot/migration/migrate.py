"""The steps of a migration, as commands run them, and writing to both logs, the old one first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import ConfigurationError
from headrace.run.report import Status
from headrace.sot.exceptions import ChainError, MalformedInput, MalformedRecord, StoreUnavailable
from headrace.sot.frames import Chunk, identity
from headrace.sot.frames import bodies as bodies_of
from headrace.sot.migration.backfill import Backfill, Comparison, compare
from headrace.sot.migration.old_log import OldLog, Phase, WrongPhase, target_of
from headrace.sot.reports import SotReport
from headrace.sot.requests import MigrateRequest
from headrace.sot.sources.places import Place, find_places
from headrace.sot.sources.reading import read_places
from headrace.sot.store import SotStore
from headrace.stopping import STOP, StopEvent


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
            WrongPhase: the step does not lead on from where the migration stands.
            HeadraceError: of either log.
        """
        started_s = time.monotonic()
        writing = self.request.action == "write"
        if writing:  # before an old log is made for it
            self._find_source()
        old = OldLog(self.request.old, create=writing)
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
        stand = f"phase {phase.value}, reads from the {phase.reads} log, {lag:,} records behind"
        return SotReport(
            run=run,
            action="migrate",
            status=self.status,
            store=self.new.location,
            message=f"{self.message}; {stand}" if self.message else stand,
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
            self.message = f"{written:,} records written"
            return
        self.details |= {"read": report.read, "written": report.written}
        self.message = f"{report.written:,} records written"
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
            old,
            self.new,
            batch=self.request.batch,
            on_records=self.on_records,
            stop=self.stop,
        ).run()
        self.details["added"] = added
        self.message = f"{added:,} records added to the new log"

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
            self.message = f"{found.records:,} records of {found.symbols:,} symbols are equal"
        else:
            self.status = Status.PARTIAL
            self.message = f"{len(found.differences):,} symbols differ; nothing was switched"
        return found
