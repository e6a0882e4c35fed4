"""Who is in which group and has which role: the users' bodies say it, requests of their own set it.

Groups are only added to. Roles are set as a whole, as the API has it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass

from headrace.looker.restore.api import Api
from headrace.looker.restore.report import ItemReport, RestoreOutcome
from headrace.looker.restore.state import Ids, RestoreState
from headrace.looker.vault import Vault, id_text

GROUPS = "user.groups"
ROLES = "user.roles"
_AS_IT_IS = b""


@dataclass(frozen=True, slots=True)
class MembershipUpdate:
    """What is to be set for one user."""

    type: str
    id: str
    run: Callable[[], ItemReport]


class Memberships:
    """Sets what `group_ids` and `role_ids` of the users in the vault say."""

    def __init__(self, vault: Vault, state: RestoreState, api: Api, ids: Ids) -> None:
        self._vault = vault
        self._state = state
        self._api = api
        self._ids = ids

    def settled(self, session: int, user: str) -> None:
        """The user is there as the vault has it, memberships included."""
        for kind in (GROUPS, ROLES):
            self._state.record(session, kind, user, user, _AS_IT_IS, complete=True)

    def unsettled(self, user: str) -> None:
        """The user was written: its memberships are to be set."""
        for kind in (GROUPS, ROLES):
            self._state.forget(kind, user)

    def due(self, session: int, types: Set[str]) -> Iterator[MembershipUpdate]:
        """What differs from what was set before, once users, or groups and roles, are restored.

        Args:
            session: of this run.
            types: that were restored in it.
        """
        kinds = [(GROUPS, "group", "group_ids"), (ROLES, "role", "role_ids")]
        for kind, type_, name in kinds:
            if not types & {"user", type_}:
                continue
            for row in self._vault.contents.rows("user"):
                entry = self._state.entry("user", row.id)
                if entry is None:
                    continue
                body = json.loads(self._vault.contents.body("user", row.id).body)
                named = [id_text(each) or "" for each in body.get(name) or ()]
                wanted = sorted(n for each in named if (n := self._ids.known(type_, each)))
                mark = hashlib.sha256(json.dumps(wanted).encode()).digest()
                known = self._state.entry(kind, row.id)
                if known is not None and known.hash == _AS_IT_IS and wanted == sorted(named):
                    continue
                if wanted and (known is None or (known.hash, known.new_id) != (mark, entry.new_id)):
                    gone = [each for each in named if self._ids.known(type_, each) is None]
                    left_out = tuple(f"{type_} {each} is not there" for each in gone)
                    yield MembershipUpdate(
                        kind, row.id, self._setting(session, kind, row.id, wanted, mark, left_out)
                    )

    def _setting(
        self,
        session: int,
        kind: str,
        user: str,
        wanted: list[str],
        mark: bytes,
        left_out: tuple[str, ...],
    ) -> Callable[[], ItemReport]:
        def run() -> ItemReport:
            new_id = self._ids.new("user", user)
            if kind == ROLES:
                self._api.put("PUT", f"/users/{new_id}/roles", wanted)
            else:
                for group in wanted:
                    self._api.put("POST", f"/groups/{group}/users", {"user_id": new_id})
            self._state.record(session, kind, user, new_id, mark, complete=True)
            return ItemReport(kind, user, RestoreOutcome.UPDATED, new_id, left_out=left_out)

        return run
