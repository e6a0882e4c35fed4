"""What became of each item of a restore, and of all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from headrace.looker.vault import Status


class RestoreOutcome(StrEnum):
    """What became of one item."""

    CREATED = "created"
    UPDATED = "updated"
    ADOPTED = "adopted"  # one of the same name was there and is taken for it
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"  # the API cannot make it
    FAILED = "failed"
    REMOVED = "removed"  # by a promotion: it is in the trash there


@dataclass(frozen=True, slots=True)
class ItemReport:
    """One item: what became of it, its id there, and why if it did not work.

    `left_out` names what of it could not be carried over, although it was made or changed.
    """

    type: str
    id: str
    how: RestoreOutcome
    new_id: str = ""
    reason: str = ""
    left_out: tuple[str, ...] = ()


@dataclass
class RestoreReport:
    """All items of a run.

    Attributes:
        session: the vault's session of it.
        counts: outcomes by type.
        problems: what failed, was skipped, or is there without a part of it, one by one.
        stopped: it was asked to end early.
    """

    session: int
    counts: dict[str, Counter[RestoreOutcome]] = field(default_factory=dict)
    problems: list[ItemReport] = field(default_factory=list)
    stopped: bool = False

    def add(self, outcome: ItemReport) -> None:
        """Count one."""
        self.counts.setdefault(outcome.type, Counter())[outcome.how] += 1
        if outcome.how in (RestoreOutcome.FAILED, RestoreOutcome.SKIPPED) or outcome.left_out:
            self.problems.append(outcome)

    @property
    def failed(self) -> list[ItemReport]:
        """What failed."""
        return [outcome for outcome in self.problems if outcome.how is RestoreOutcome.FAILED]

    @property
    def incomplete(self) -> list[ItemReport]:
        """What is there without a part of it."""
        return [outcome for outcome in self.problems if outcome.left_out]

    @property
    def status(self) -> Status:
        """How the run ended."""
        if self.stopped:
            return Status.INTERRUPTED
        return Status.PARTIAL if self.failed or self.incomplete else Status.DONE
