"""What a restore has done so far, kept in the vault: ids at the target, intents, failures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.looker.exceptions import NeedsAnother
from headrace.looker.restore.fields import Fields
from headrace.looker.vault import Vault
from headrace.looker.vault.items import shown, utc_text
from headrace.looker.vault.sessions import FAILED_AGAIN, LONGEST_MESSAGE


@dataclass(frozen=True, slots=True)
class Entry:
    """An item of the vault that is at the target: `complete` is False while parts are missing."""

    new_id: str
    hash: bytes
    complete: bool
    session: int


@dataclass(frozen=True, slots=True)
class RestoreFailure:
    """An item that could not be restored, until it is."""

    target: str
    type: str
    id: str
    status: int | None
    message: str
    attempts: int
    session: int
    first_at: str
    last_at: str


_THIS = "WHERE target = ? AND type = ? AND id = ?"


class RestoreState:
    """The tables of restores into one Looker.

    Args:
        vault: where they are kept.
        target: base URL of the Looker that is restored into.
    """

    def __init__(self, vault: Vault, target: str) -> None:
        self._vault = vault
        self._file = vault.file
        self.target = target

    def entry(self, type_: str, item_id: str) -> Entry | None:
        """What an item of the vault has become there."""
        row = self._file.query_one(
            f"SELECT new_id, hash, complete, session FROM restored {_THIS}",
            (self.target, type_, item_id),
        )
        return Entry(row[0], row[1], bool(row[2]), row[3]) if row else None

    def taken_by(self, type_: str, new_id: str) -> str | None:
        """Which item of the vault is `new_id` there, if any is."""
        row = self._file.query_one(
            "SELECT id FROM restored WHERE target = ? AND type = ? AND new_id = ?",
            (self.target, type_, new_id),
        )
        return str(row[0]) if row else None

    def intend(self, type_: str, item_id: str) -> None:
        """It is about to be made: until it is recorded or refused, it may be there or not."""
        self._file.execute(
            "INSERT OR IGNORE INTO restore_intent (target, type, id) VALUES (?, ?, ?)",
            (self.target, type_, item_id),
        )

    def intended(self, type_: str, item_id: str) -> bool:
        """Whether an earlier run was about to make it and recorded no result."""
        found = self._file.query_one(
            f"SELECT 1 FROM restore_intent {_THIS}", (self.target, type_, item_id)
        )
        return found is not None

    def refused(self, type_: str, item_id: str) -> None:
        """It was not made: the server said so."""
        self._file.execute(f"DELETE FROM restore_intent {_THIS}", (self.target, type_, item_id))

    def record(
        self, session: int, type_: str, item_id: str, new_id: str, hash_: bytes, *, complete: bool
    ) -> None:
        """It is there; with all its parts, or for the time being without."""
        key = (self.target, type_, item_id)
        with self._file.writing() as db:
            db.execute(
                "INSERT OR REPLACE INTO restored (target, type, id, new_id, hash, complete,"
                " session, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (*key, new_id, hash_, int(complete), session, utc_text(self._vault.now())),
            )
            db.execute(f"DELETE FROM restore_intent {_THIS}", key)
            if complete:
                db.execute(
                    f"UPDATE restore_failure SET resolved_at = ? {_THIS} AND resolved_at IS NULL",
                    (utc_text(self._vault.now()), *key),
                )

    def forget(self, type_: str, item_id: str) -> None:
        """It is not there any more."""
        self._file.execute(f"DELETE FROM restored {_THIS}", (self.target, type_, item_id))

    def fail(
        self, session: int, type_: str, item_id: str, status: int | None, message: str
    ) -> None:
        """It could not be restored; one more attempt if that is not new."""
        at = utc_text(self._vault.now())
        self._file.execute(
            "INSERT INTO restore_failure (target, type, id, status, message, attempts, session,"
            " first_at, last_at, resolved_at) VALUES (?, ?, ?, ?, ?, 1, ?, ?, ?, NULL)"
            + FAILED_AGAIN,
            (
                self.target,
                type_,
                item_id,
                status,
                shown(message)[:LONGEST_MESSAGE],
                session,
                at,
                at,
            ),
        )

    def failure(self, type_: str, item_id: str) -> str | None:
        """Why an item is not there, or not whole; None if it is."""
        row = self._file.query_one(
            f"SELECT message FROM restore_failure {_THIS} AND resolved_at IS NULL",
            (self.target, type_, item_id),
        )
        return str(row[0]) if row else None


def restore_failures(vault: Vault) -> list[RestoreFailure]:
    """What could not be restored, into whatever Looker, and has not been since."""
    rows = vault.file.query(
        "SELECT target, type, id, status, message, attempts, session, first_at, last_at"
        " FROM restore_failure WHERE resolved_at IS NULL ORDER BY target, type, id"
    )
    return [RestoreFailure(*row) for row in rows]


#: Under which the state keeps what tiles of restored dashboards have become; alerts refer to them.
TILE = "dashboard_element"

#: Fields that hold the id of another item, and its type.
_REFERENCES: Mapping[str, str] = {
    "user_id": "user",
    "folder_id": "folder",
    "parent_id": "folder",
    "home_folder_id": "folder",
    "permission_set_id": "permission_set",
    "model_set_id": "model_set",
    "look_id": "look",
    "dashboard_id": "dashboard",
    "merge_result_id": "merge_query",
    "query_id": "query",
    "owner_id": "user",
    "dashboard_element_id": TILE,
    "investigative_content_id": "dashboard",
}
#: Without these the item is still what it was: its owner becomes the caller.
_DISPENSABLE = ("user_id", "home_folder_id", "owner_id", "investigative_content_id")


#: Tiles are parts: whether they are done is recorded with their dashboard.
_OF_NO_SESSION = 0


class Ids:
    """Ids of the vault to ids of the target.

    Args:
        state: what was restored there.
        same: the target is the Looker that the vault is of. What was not restored has its own id
            there then; elsewhere it is not there.
        given: ids there, by type and id, of what was not restored and is there all the same.
    """

    def __init__(
        self, state: RestoreState, *, same: bool, given: Mapping[tuple[str, str], str] | None = None
    ) -> None:
        self._state = state
        self.same = same
        self._given = given or {}

    def known(self, type_: str, item_id: str) -> str | None:
        """The id there, or None."""
        if (given := self._given.get((type_, item_id))) is not None:
            return given
        entry = self._state.entry(type_, item_id)
        if entry is not None:
            return entry.new_id
        return item_id if self.same else None

    def note_tile(self, tile: str, new_id: str) -> None:
        """A tile of the vault was made there."""
        self._state.record(_OF_NO_SESSION, TILE, tile, new_id, b"", complete=True)

    def on_its_tile(self, body: Fields) -> Fields:
        """An alert with the tile there that it watches; anything else as it is."""
        tile = body.get("dashboard_element_id")
        if tile is None:
            return body
        return {**body, "dashboard_element_id": self.known(TILE, str(tile))}

    def new(self, type_: str, item_id: object) -> str:
        """The id there.

        Raises:
            NeedsAnother: it is not there.
        """
        found = self.known(type_, str(item_id))
        if found is None:
            raise NeedsAnother(type_, str(item_id))
        return found

    def translated(self, fields: Fields, leave_out: Callable[[str], object]) -> Fields:
        """`fields` with every reference as it is there.

        Args:
            leave_out: called with what has to be left out, in words.

        Raises:
            NeedsAnother: one that cannot be left out is not there.
        """
        done: Fields = {}
        for name, value in fields.items():
            type_ = _REFERENCES.get(name)
            if type_ is None or value is None:
                done[name] = value
            elif name in _DISPENSABLE:
                found = self.known(type_, str(value))
                if found is None:
                    leave_out(f"{name}: {type_} {value} is not there")
                else:
                    done[name] = found
            else:
                done[name] = self.new(type_, value)
        return done
