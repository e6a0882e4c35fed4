"""What a restore is to bring back, in which order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.looker.content_types import RESTORE_ORDER, content_of
from headrace.looker.exceptions import NotRestorable
from headrace.looker.merged_query_ids import named_in
from headrace.looker.vault import NotInVault, Row, Vault


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
        return with_named(vault, [Step(type_, item_id, row.name or "", body.hash, version)])
    steps: list[Step] = []
    for type_ in RESTORE_ORDER:
        if type_ in wanted:
            rows = list(vault.contents.rows(type_, deleted=deleted))
            ordered = _parents_first(rows) if type_ == "folder" else rows
            steps += [Step(row.type, row.id, row.name or "", row.hash) for row in ordered]
    return with_named(vault, steps)


def with_named(vault: Vault, steps: Sequence[Step]) -> list[Step]:
    """With the queries and merged queries of dashboards, as far as the vault has them."""
    known = {(step.type, step.id) for step in steps}
    found: list[Step] = []
    for type_ in ("merge_query", "query"):
        above = content_of(type_).named_by
        ids: dict[str, None] = {}
        for step in (*steps, *found):
            if step.type == above:
                body = vault.contents.body(above, step.id, version=step.version).body
                ids |= dict.fromkeys(named_in(body))
        rows = [vault.contents.row(type_, i) for i in ids if (type_, i) not in known]
        found += [Step(row.type, row.id, row.name or "", row.hash) for row in rows if row]
    return sorted((*steps, *found), key=lambda step: RESTORE_ORDER.index(step.type))


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
