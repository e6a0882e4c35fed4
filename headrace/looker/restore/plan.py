"""What is restored and in which order, nothing before what it needs; and what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from headrace.looker.content import RESTORE_ORDER, content_of
from headrace.looker.exceptions import NotRestorable
from headrace.looker.vault import NotInVault, Row, Status, Vault


@dataclass(frozen=True, slots=True)
class Step:
    """One item to restore: the current version unless another is named."""

    type: str
    id: str
    name: str
    hash: bytes
    version: int | None = None


def plan(
    vault: Vault,
    *,
    types: Iterable[str] = (),
    item_id: str | None = None,
    version: int | None = None,
    deleted: bool = False,
) -> list[Step]:
    """The steps of a restore, in order of their dependencies; folders below their parents.

    Args:
        vault: what to restore from.
        types: only these; all that the API can make if left out.
        item_id: one item of the one type named; also if it is deleted on the server.
        version: an older version of it.
        deleted: also items that are deleted on the server.

    Raises:
        NotInVault: no such item or version.
        NotRestorable: a type that the API cannot make.
    """
    wanted = tuple(types) or RESTORE_ORDER
    for name in wanted:
        if content_of(name).restore_rank is None:
            raise NotRestorable(
                f"{name} items come from LookML, the API cannot make them",
                hint="Deploy the LookML project to the other Looker",
            )
    if item_id is not None:
        (type_,) = wanted
        row = vault.contents.row(type_, item_id)
        if row is None:
            raise NotInVault(type_, item_id)
        body = vault.contents.body(type_, item_id, version=version)
        return [Step(type_, item_id, row.name or "", body.hash, version)]
    steps: list[Step] = []
    for type_ in RESTORE_ORDER:
        if type_ in wanted:
            rows = list(vault.contents.rows(type_, deleted=deleted))
            ordered = _parents_first(rows) if type_ == "folder" else rows
            steps += [Step(row.type, row.id, row.name or "", row.hash) for row in ordered]
    return steps


def _parents_first(rows: Sequence[Row]) -> list[Row]:
    """Folders by depth. One whose parent is not among them, or is below itself, comes last."""
    children: dict[str | None, list[Row]] = {}
    ids = {row.id for row in rows}
    for row in rows:
        children.setdefault(row.folder if row.folder in ids else None, []).append(row)
    ordered, level = [], children.get(None, [])
    while level:
        ordered += level
        level = [child for parent in level for child in children.get(parent.id, [])]
    reached = {row.id for row in ordered}
    return ordered + [row for row in rows if row.id not in reached]


class RestoreOutcome(StrEnum):
    """What became of one item."""

    CREATED = "created"
    UPDATED = "updated"
    ADOPTED = "adopted"  # one of the same name was there and is taken for it
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"  # the API cannot make it
    FAILED = "failed"


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
