"""What a command of the log did, in one form for terminals, JSON, the UI and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Final

from headrace.amounts import counted
from headrace.leases import LeaseHeld
from headrace.run.report import Report, Row, Sheet, Status, plain
from headrace.sot.acknowledged_heads import KeptHead
from headrace.sot.anchors.compare import Kept, PlaceReport
from headrace.sot.exceptions import RECOVERABLE, DamagedLog
from headrace.sot.recover import RecoverReport
from headrace.sot.requests import SotRequest
from headrace.sot.tree.log_head import LogHead
from headrace.sot.verify import VerifyReport
from headrace.sot.writing.stats import NAMED, ShardStats
from headrace.sot.writing.write import WriteReport

#: What follows from an anchor without a head.
NO_HEAD: Final = "nothing is proven by it. headrace sot anchor puts one there"
#: How a replay goes on that ended at damage.
PAST_DAMAGE: Final = "--past-damage goes on with the other symbols"


@dataclass(frozen=True, slots=True)
class SotReport(Report):
    """One run of a command of the log.

    Attributes:
        action: write, verify, recover or migrate.
        message: one line for people.
        details: what `--json` has beside the common fields; plain values.
        rows: a table of it, one row per shard or symbol.
        problems: what was wrong, one line each.
        damages: those of the problems that say: the log does not hold what was written to it.
    """

    key: ClassVar[str] = "headrace-sot"

    run: str
    action: str
    status: Status
    store: str
    message: str
    elapsed_s: float
    details: dict[str, Any] = field(default_factory=dict)
    rows: tuple[dict[str, Any], ...] = ()
    problems: tuple[str, ...] = ()
    damages: tuple[str, ...] = ()
    stopped: bool = False
    ui_url: str | None = None

    @property
    def problems_by_kind(self) -> dict[str, list[str]]:
        """The problems by what happened: `chain-broken`, `tail-cut`, or `logs-differ` in a
        migration, `not-anchored` of an anchor or a verification and `record-refused` elsewhere.
        """
        others = {"migrate": "logs-differ", "anchor": "not-anchored", "verify": "not-anchored"}
        other = others.get(self.action, "record-refused")
        repairs = self.details.get("repairs", ())
        found: dict[str, list[str]] = {}
        for problem in self.problems:
            known = "tail-cut" if problem in repairs else other
            happened = "chain-broken" if problem in self.damages else known
            found.setdefault(happened, []).append(problem)
        return found

    def as_json(self) -> dict[str, Any]:
        """The form of `--json`."""
        return {
            "run": self.run,
            "action": self.action,
            "status": self.status.value,
            "store": self.store,
            "ui_url": self.ui_url,
            "elapsed_s": round(self.elapsed_s, 3),
            "message": self.message,
            **self.details,
            "problems": list(self.problems),
        }

    def counts(self) -> dict[str, float]:
        """Records written, if it was a write."""
        written = self.details.get("written")
        return {**Report.counts(self), **({} if written is None else {"written": written})}

    def plus(self, earlier: Mapping[str, float]) -> SotReport:
        """With what earlier attempts of the same run wrote."""
        before = int(earlier.get("written", 0))
        if not before:
            return Report.plus(self, earlier)
        return replace(
            Report.plus(self, earlier),
            message=f"{self.message}; {before:,} by earlier attempts",
            details={**self.details, "written": self.details.get("written", 0) + before},
        )

    def title(self) -> str:
        """Which command it was."""
        return f"sot {self.action}"

    def headline(self) -> str:
        """The outcome in one line."""
        return self.message

    def totals(self) -> str:
        """The same, with the status."""
        return f"{self.status.value.replace('_', ' ')}: {self.message}"

    def table(self) -> list[Row]:
        """A row per shard or symbol."""
        return list(self.rows)

    def sheets(self) -> list[Sheet]:
        """The same in the UI."""
        rows = [{name: _unmarked(cell) for name, cell in row.items()} for row in self.rows]
        return [Sheet(self.action, self.message, rows[:_MOST_ROWS])]

    def remarks(self) -> list[str]:
        """What was wrong."""
        return list(self.problems)


#: Rows of one table artifact; `--json` has the rest.
_MOST_ROWS = 500


def _unmarked(cell: object) -> object:
    return plain(cell) if isinstance(cell, str) else cell


def refused(
    request: SotRequest, held: LeaseHeld, *, run_id: str = "", ui_url: str | None = None
) -> SotReport:
    """The report of a run that did not begin, because another writes to the same log."""
    return SotReport(
        run=run_id,
        action=type(request).__name__.removesuffix("Request").lower(),
        status=Status.RUNNING_ELSEWHERE,
        store=request.store,
        message=str(held),
        elapsed_s=0.0,
        ui_url=ui_url,
    )


_COUNTED = ("read", "read_bytes", "written", "duplicates", "parked", "refused")


def _status(*, whole: bool, kept: int) -> Status:
    if whole:
        return Status.DONE
    return Status.PARTIAL if kept else Status.FAILED


def report_of_write(run: str, store: str, written: WriteReport) -> SotReport:
    """What a write did: done if all of the source is in its chains, failed if none of it is."""
    status = _status(whole=written.complete, kept=written.written + written.duplicates)
    problems = [str(problem) for problem in written.problems]
    if len(problems) >= NAMED:
        # A line may be about many records, so what the list lacks is not a difference.
        lost = counted(sum(written.counts.values()), "record was", "records were")
        problems.append(f"{lost} not stored in all")
    if written.malformed is not None:
        problems.append(str(written.malformed))
    damages = [str(problem) for problem in written.problems if problem.kind == "damage"]
    met = written.counts.get("damage", 0)
    if met and not damages:
        damages.append(f"{counted(met, 'record')} met damage in the log")
        problems.extend(damages)
    per_s = written.written / written.elapsed_s if written.elapsed_s else 0.0
    message = f"{counted(written.written, 'record')} stored at {per_s:,.0f}/s"
    for count, what in (
        (written.duplicates, "there already"),
        (written.parked, "parked"),
        (written.refused, "refused"),
    ):
        if count:
            message += f", {count:,} {what}"
    return SotReport(
        run=run,
        action="write",
        status=status,
        store=store,
        message=message,
        elapsed_s=written.elapsed_s,
        details={
            **{name: getattr(written, name) for name in _COUNTED},
            "refused_by_kind": dict(written.counts),
            "records_per_s": round(per_s, 1),
            "skew": round(written.skew, 3),
            "shards": [shard_row(shard) for shard in written.shards],
            "heads": {
                str(symbol_id): KeptHead.of(head).model_dump()
                for symbol_id, head in sorted(written.heads.items())
            },
            "repairs": list(written.repairs),
        },
        rows=tuple(_short_row(shard) for shard in written.shards if shard.records),
        problems=(*problems, *written.repairs),
        damages=tuple(damages),
        stopped=written.stopped,
    )


def shard_row(shard: ShardStats) -> dict[str, Any]:
    """One shard's metrics; durations in milliseconds."""
    return {
        **{name: getattr(shard, name) for name in ("shard", "symbols", "records")},
        "records_per_s": round(shard.records_per_s, 1),
        "batches": shard.batches,
        "batch_p50_ms": round(1000 * shard.commit.quantile(0.5), 2),
        "batch_p99_ms": round(1000 * shard.commit.quantile(0.99), 2),
        "delay_p99_ms": round(1000 * shard.delay.quantile(0.99), 2),
        "queue_bytes": shard.queue_bytes,
    }


def _short_row(shard: ShardStats) -> dict[str, Any]:
    """What of it fits a terminal of 80 columns."""
    row = shard_row(shard)
    return {
        **{name: row[name] for name in ("shard", "symbols", "records")},
        "per_s": round(row["records_per_s"]),
        "batch_p99_ms": round(row["batch_p99_ms"], 1),
        "delay_p99_ms": round(row["delay_p99_ms"]),
        "queue_kb": round(shard.queue_bytes / 1000),
    }


def report_of_verify(
    run: str,
    store: str,
    found: VerifyReport,
    beyond: Sequence[str] = (),
    anchors: Sequence[PlaceReport] = (),
) -> SotReport:
    """What verifying has shown.

    Args:
        run, store: which.
        found: by recomputing.
        beyond: what disagrees with heads that were remembered elsewhere.
        anchors: what holding the log against signed heads has shown.
    """
    damages = (
        *found.damages,
        *(s.damage for s in found.symbols if s.damage),
        *beyond,
        *(place.misfit for place in anchors if place.misfit),
    )
    damages = tuple(dict.fromkeys(damages))
    unproven = tuple(f"{place.words}; {NO_HEAD}" for place in anchors if place.empty)
    problems = (*damages, *unproven)
    status = _status(whole=not problems, kept=found.records)
    bad = sum(1 for symbol in found.symbols if symbol.damage)
    message = (
        f"{counted(found.records, 'record')} of {counted(len(found.symbols), 'symbol')} "
        f"{'is' if found.records == 1 else 'are'} good"
    )
    if damages:
        message += (
            f"; {counted(bad, 'symbol is', 'symbols are')} damaged, "
            f"{counted(len(damages), 'finding')}"
        )
    message += "".join(f"; {place.words}" for place in anchors)
    rows = tuple(
        {
            "symbol": symbol.symbol_id,
            "records": symbol.records,
            "good_until": str(symbol.good_until),
            "damage": symbol.damage or "",
        }
        for symbol in found.symbols
    )
    return SotReport(
        run=run,
        action="verify",
        status=status,
        store=store,
        message=message,
        elapsed_s=found.elapsed_s,
        details={
            "mode": found.mode.value,
            "records": found.records,
            "symbols": list(rows),
            "anchors": [asdict(place) for place in anchors],
        },
        rows=rows,
        problems=problems,
        damages=damages,
    )


def report_of_anchor(
    run: str, store: str, head: LogHead, stamp: str, kept: Sequence[Kept], elapsed_s: float
) -> SotReport:
    """Where a signed head was put.

    Args:
        run, store: which.
        head: what was signed.
        stamp: what came of the time stamp, in words; "" if none was asked for.
        kept: by place.
        elapsed_s: all of it.
    """
    failures = [place.failure for place in kept if place.failure]
    done = len(kept) - len(failures)
    message = (
        f"the head of {counted(len(head.symbols), 'symbol')} is in {done:,} of "
        f"{counted(len(kept), 'anchor')}"
    )
    if stamp:
        message += f"; {stamp}"
    rows = tuple(
        {"anchor": place.where, "protection": place.protection, "failure": place.failure}
        for place in kept
    )
    return SotReport(
        run=run,
        action="anchor",
        status=_status(whole=not failures, kept=done),
        store=store,
        message=message,
        elapsed_s=elapsed_s,
        details={
            "head": head.statement.as_dict(),
            "time": head.time,
            "stamp": stamp,
            "anchors": list(rows),
        },
        rows=rows,
        problems=tuple(failures),
    )


def report_of_recover(
    run: str, store: str, replay: RecoverReport, *, past_damage: bool = False
) -> SotReport:
    """What a replay wrote; where it ended at damage, how to go on past it."""
    damages = tuple(_after_recover(damage, past_damage=past_damage) for damage in replay.damages)
    status = _status(whole=replay.complete, kept=replay.records)
    message = (
        f"{counted(replay.records, 'record')} of {counted(len(replay.symbols), 'symbol')} "
        f"in {replay.place}"
    )
    if replay.damages:
        message += f"; {counted(len(replay.damages), 'damage')}, not all could be replayed"
    rows = tuple(
        {
            "symbol": symbol.symbol_id,
            "records": symbol.records,
            "first_seq": None if symbol.first_seq is None else str(symbol.first_seq),
            "last_seq": None if symbol.last_seq is None else str(symbol.last_seq),
            "missing": symbol.missing,
        }
        for symbol in replay.symbols
    )
    return SotReport(
        run=run,
        action="recover",
        status=status,
        store=store,
        message=message,
        elapsed_s=replay.elapsed_s,
        details={"out": replay.place, "records": replay.records, "symbols": list(rows)},
        rows=rows,
        problems=damages,
        damages=damages,
        stopped=replay.stopped,
    )


def _after_recover(damage: DamagedLog, *, past_damage: bool) -> str:
    """A damage with the step that comes after a replay, not the advice to replay."""
    if damage.hint != RECOVERABLE:
        return str(damage)
    return damage.message if past_damage else f"{damage.message}. {PAST_DAMAGE}"
