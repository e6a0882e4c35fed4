"""What changed in a vault between two sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from headrace.errors import ConfigurationError
from headrace.looker.comparing import Change, changes
from headrace.looker.vault import Session, Vault


class What(StrEnum):
    """What became of an item."""

    ADDED = "added"
    CHANGED = "changed"
    DELETED = "deleted"
    RETURNED = "returned"


@dataclass(frozen=True, slots=True)
class Difference:
    """One item that is not as it was.

    Attributes:
        type, id, name: which; the name is the present one.
        what: what became of it.
        origin: `server`, or `pack` if the later version is an edit of ours.
        changes: fields that differ; empty unless it changed, and the vault still has both.
    """

    type: str
    id: str
    name: str | None
    what: What
    origin: str
    changes: tuple[Change, ...] = ()


def pair_of_sessions(vault: Vault, before: int | None, after: int | None) -> tuple[int, int]:
    """The sessions to compare: those given, else the newest and the one before it.

    Raises:
        NoSuchSession: a session that does not exist.
        ConfigurationError: fewer than two sessions, or an order that makes no sense.
    """
    # A restore stores nothing that could differ.
    sessions: list[Session] = [each for each in vault.sessions.list() if each.kind != "restore"]
    if after is None:
        if not sessions:
            raise ConfigurationError(
                f"the vault {vault.path} has no session yet", hint="Run `headrace looker extract`"
            )
        after = sessions[0].id
    if before is None:
        older = [session.id for session in sessions if session.id < after]
        if not older:
            raise ConfigurationError(
                f"there is no session before {after} to compare it with",
                hint="Extract once more, or name two sessions: headrace looker diff 1 2",
            )
        before = older[0]
    vault.sessions.get(before)
    vault.sessions.get(after)
    if before >= after:
        raise ConfigurationError(
            f"session {before} is not before session {after}",
            hint="Name the older one first: headrace looker diff 1 2",
        )
    return before, after


def differences(
    vault: Vault, before: int, after: int, *, types: Iterable[str] = (), volatile: bool = False
) -> Iterator[Difference]:
    """Items that differ between two sessions, by type and id.

    Args:
        vault: the vault.
        before, after: sessions; the state at the end of each.
        types: only these content types.
        volatile: also items of which only such fields differ as change by being looked at.

    Raises:
        VaultDamaged: a body that does not read.
    """
    for moved in vault.contents.moved(before, after, types=types):
        there_before = moved.known_before and not moved.deleted_before
        there_after = not moved.deleted_after
        if not there_before and not there_after:
            continue
        origin = moved.origin_after
        if there_before and not there_after:
            what = What.DELETED
        elif not there_before:
            what = What.RETURNED if moved.known_before else What.ADDED
        elif moved.version_before is None:
            what = What.CHANGED  # what it was is no longer kept
        else:
            if moved.version_before == moved.version_after:
                continue
            old = vault.contents.body(moved.type, moved.id, version=moved.version_before)
            new = vault.contents.body(moved.type, moved.id, version=moved.version_after)
            found = tuple(changes(old.body, new.body, volatile=volatile))
            if not found and not volatile:
                continue
            yield Difference(moved.type, moved.id, moved.name, What.CHANGED, origin, found)
            continue
        yield Difference(moved.type, moved.id, moved.name, what, origin)
