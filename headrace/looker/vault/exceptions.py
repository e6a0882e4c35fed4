"""What can go wrong with a vault's file. None of these touches the file."""

from __future__ import annotations

from pathlib import Path

from headrace.errors import ConfigurationError, HeadraceError, StateError

_WAY_OUT = (
    "It was left as it is. Make sure that nothing uses it, move it (with its -wal and -shm) away, "
    "then `headrace looker snapshot fetch` brings back a copy, or `headrace looker extract` "
    "makes a new one"
)


class VaultMissing(ConfigurationError):
    """There is no vault at the path."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"there is no vault at {path}",
            hint="Make it with `headrace looker extract`, or name another with --vault",
        )
        self.path = path


class VaultUnusable(ConfigurationError):
    """The path cannot hold a vault: a folder, no permission, no space."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"the vault {path} cannot be used: {reason}",
            hint="Look at the path, its permissions and the disk",
        )
        self.path = path
        self.reason = reason


class VaultForeign(StateError):
    """The file exists and is not a vault: empty, text, or a database of something else."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path} is not a vault of Headrace: {reason}",
            hint="It was left as it is; name another file with --vault",
        )
        self.path = path
        self.reason = reason


class VaultDamaged(StateError):
    """The file is a vault, and SQLite or a hash says that it is not whole."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"the vault {path} is damaged: {reason}", hint=_WAY_OUT)
        self.path = path
        self.reason = reason


class BodyDamaged(VaultDamaged):
    """One stored body is not what it was; the rest of the vault may be whole."""

    def __init__(self, path: Path, type_: str, item_id: str, version: int, wrong: str) -> None:
        super().__init__(path, f"version {version} of {type_} {item_id!r} {wrong}")
        self.type = type_
        self.id = item_id
        self.version = version
        self.wrong = wrong


class VaultTooNew(StateError):
    """A later version of Headrace wrote the file."""

    def __init__(self, path: Path, found: int, known: int) -> None:
        super().__init__(
            f"the vault {path} has schema version {found}, this version of headrace knows {known}",
            hint="Upgrade headrace here; the file was left as it is",
        )
        self.path = path
        self.found = found
        self.known = known


class VaultOfAnother(StateError):
    """The vault holds the content of another Looker than the one that is asked for."""

    def __init__(self, path: Path, holds: str, asked: str) -> None:
        super().__init__(
            f"the vault {path} holds the content of {holds}, not of {asked}",
            hint="One vault is one Looker: name another file with --vault",
        )
        self.path = path
        self.holds = holds
        self.asked = asked


class VaultBusy(HeadraceError):
    """Another process kept the file locked for longer than the limit."""

    def __init__(self, path: Path, reason: str, *, hint: str) -> None:
        super().__init__(f"the vault {path} cannot be written: {reason}", hint=hint)
        self.path = path
        self.reason = reason


class NoSuchSession(ConfigurationError):
    """A session that the vault does not have."""

    def __init__(self, session: int, known: str) -> None:
        super().__init__(f"the vault has no session {session}", hint=f"Known: {known}")
        self.session = session


class NotInVault(ConfigurationError):
    """An item, or a version of it, that the vault does not hold."""

    def __init__(self, type_: str, item_id: str, version: int | None = None) -> None:
        which = f"version {version} of {type_} {item_id!r}" if version else f"{type_} {item_id!r}"
        super().__init__(f"the vault holds no {which}", hint=f"See `headrace looker list {type_}`")
        self.type = type_
        self.id = item_id
        self.version = version


class ListingIncomplete(HeadraceError):
    """Absence was asked about although the listing that would show it is not complete."""

    def __init__(self, type_: str, session: int, missing: tuple[str, ...]) -> None:
        super().__init__(
            f"{type_}: nothing can be called absent in session {session}, since the listing of "
            f"{', '.join(missing)} is not complete",
            hint="Only a complete listing without errors is evidence; the next run lists again",
        )
        self.type = type_
        self.session = session
        self.missing = missing
