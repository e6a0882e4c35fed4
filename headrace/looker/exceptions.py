"""What can go wrong with Looker's content, each with the data that says where.

Transient errors of the server (throttled, 5xx, time-outs, broken connections, bodies that are none)
are those of `headrace.wire.exceptions`, distinguished by status and shape, never by words.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from headrace.errors import ConfigurationError, HeadraceError, NewerVersion, PlaceError, StateError
from headrace.wire.exceptions import PermanentError, ServerError


class LookerError(HeadraceError):
    """The root of what is particular to Looker."""


class UnknownType(ConfigurationError):
    """A content type that Looker or this program does not have."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"no content type {name!r}", hint=f"Known: {', '.join(known)}")
        self.name = name


class ItemRefused(LookerError):
    """A body that cannot become a row: not an object, no JSON, or without a usable id.

    Attributes:
        type: content type that was asked for.
        reason: what is wrong with it.
        excerpt: the beginning of the body, safe to print.
    """

    def __init__(self, type_: str, reason: str, body: bytes) -> None:
        self.type = type_
        self.reason = reason
        self.excerpt = ascii(bytes(body[:60]))[2:-1]
        super().__init__(
            f"{type_}: a body was refused: {reason} ({self.excerpt})",
            hint="Nothing was stored for it; ask Looker for this item alone to see what it says",
        )


class VaultMissing(PlaceError, ConfigurationError):
    """There is no vault at the path."""

    said = "there is no vault at {where}"
    way_out = "Make it with `headrace looker extract`, or name another with --vault"


class VaultUnusable(PlaceError, ConfigurationError):
    """The path cannot hold a vault: a folder, no permission, no space."""

    said = "the vault {where} cannot be used: {reason}"
    way_out = "Look at the path, its permissions and the disk"


class VaultForeign(PlaceError, StateError):
    """The file exists and is not a vault: empty, text, or a database of something else."""

    said = "{where} is not a vault of Headrace: {reason}"
    way_out = "It was left as it is; name another file with --vault"


class VaultBusy(PlaceError):
    """Another process kept the file locked for longer than the limit."""

    said = "the vault {where} cannot be written: {reason}"


class VaultDamaged(PlaceError, StateError):
    """The file is a vault, and SQLite or a hash says that it is not whole."""

    said = "the vault {where} is damaged: {reason}"
    way_out = (
        "It was left as it is. Make sure that nothing uses it, move it (with its -wal and -shm) "
        "away, then `headrace looker snapshot fetch` brings back a copy, or `headrace looker "
        "extract` makes a new one"
    )


class BodyDamaged(VaultDamaged):
    """One stored body is not what it was; the rest of the vault may be whole."""

    def __init__(self, path: Path, type_: str, item_id: str, version: int, wrong: str) -> None:
        super().__init__(path, f"version {version} of {type_} {item_id!r} {wrong}")
        self.type = type_
        self.id = item_id
        self.version = version
        self.wrong = wrong


class VaultTooNew(NewerVersion):
    """A later version of Headrace wrote the file."""

    said = "the vault {where} has schema version {found}, this version of headrace knows {known}"
    way_out = "Upgrade headrace here; the file was left as it is"


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


class UnknownFolder(PlaceError, ConfigurationError):
    """A folder that Looker does not have, or does not show to the caller."""

    said = "Looker knows no folder {where!r}"
    way_out = "`headrace looker list folder` shows those in the vault"


class FolderNotRead(LookerError):
    """What lies in a folder is not known, since a listing did not come as a whole."""

    def __init__(self, folder: str, type_: str, reason: str) -> None:
        super().__init__(
            f"folder {folder} was not read: {type_}: {reason}",
            hint="Nothing was promoted; try again",
        )
        self.folder = folder
        self.type = type_


class NotPromotable(ConfigurationError):
    """A folder that cannot go there: a person's own, or a root."""

    def __init__(self, folder: str, name: str, reason: str, hint: str) -> None:
        super().__init__(f"folder {folder} ({name!r}) {reason}", hint=hint)
        self.folder = folder


class SameLooker(PlaceError, ConfigurationError):
    """The Looker to promote from is the one to promote to."""

    said = "{where} is both the Looker to promote from and the one to promote to"
    way_out = "Name the other one with --to"


class ListingShifts(HeadraceError):
    """A listing moved between its pages faster than the gaps could be read."""

    def __init__(self, type_: str, listing: str, start: int) -> None:
        super().__init__(f"{type_}: {listing} changes at {start} while it is read")
        self.type = type_
        self.listing = listing
        self.start = start


class CheckpointUnusable(HeadraceError):
    """A checkpoint of an extraction that is newer than this version, or damaged."""


class NotRestorable(LookerError):
    """The API cannot make it again, whatever is asked."""


class NeedsAnother(LookerError):
    """It refers to an item that is not there yet.

    Attributes:
        type, id: what is missing, by its id in the vault.
    """

    def __init__(self, type_: str, item_id: str) -> None:
        super().__init__(
            f"it needs {type_} {item_id}, which is not there",
            hint=f"Restore it first (headrace looker restore {type_} {item_id}), or everything",
        )
        self.type = type_
        self.id = item_id


class TakenByAnother(LookerError):
    """Another item stands where this one would be made."""

    def __init__(self, type_: str, name: str, new_id: str) -> None:
        super().__init__(
            f"there is another {type_} called {name!r} at that place (id {new_id})",
            hint="--overwrite puts this one in its place",
        )
        self.type = type_
        self.new_id = new_id


class SnapshotsUnusable(PlaceError, ConfigurationError):
    """The place for snapshots cannot be worked with; found before any work was spent."""

    said = "snapshots cannot be kept in {where}: {reason}"


class NoSuchSnapshot(ConfigurationError):
    """No snapshot of that name, or none at all."""

    def __init__(self, location: str, name: str, known: str) -> None:
        super().__init__(f"{location} holds no snapshot {name!r}", hint=f"Known: {known}")
        self.location = location
        self.name = name


class SnapshotDamaged(PlaceError, StateError):
    """What the store returns is not what was put there, by its checksum."""

    said = "the snapshot {where} is damaged: {reason}"
    way_out = (
        "Nothing was put in the place of a vault; fetch an older one "
        "(`headrace looker snapshot list`)"
    )


class TargetTaken(PlaceError, ConfigurationError):
    """There is a file where the fetched vault should be."""

    said = "there is a file at {where} already"
    way_out = "Move it (with its -wal and -shm) away, or name another place with --vault"


class FolderForeign(PlaceError, ConfigurationError):
    """The folder holds something else, or no record of what was unpacked into it."""

    said = "{where}: {reason}"


class FolderEdited(StateError):
    """Unpacking would overwrite edits that were not packed."""

    def __init__(self, folder: Path, edited: tuple[str, ...]) -> None:
        few = ", ".join(edited[:5]) + (f" and {len(edited) - 5} more" if len(edited) > 5 else "")
        super().__init__(
            f"{folder} holds edits that were not packed: {few}",
            hint="`headrace looker pack` takes them into the vault; --force throws them away",
        )
        self.folder = folder
        self.edited = edited


class NotFound(PermanentError):
    """There is no such item (404), or none that the caller may see."""


class AccessRefused(PermanentError):
    """The caller may not see it (403), or is refused even with a new token (401)."""


class AppError(ServerError):
    """Looker itself failed (500, as against 502 to 504 before it): most often at one item alone."""


class LoginRefused(ConfigurationError):
    """Looker does not take the credentials."""

    def __init__(self, base_url: str, status: int | None) -> None:
        super().__init__(
            f"{base_url} refuses the login ({status})",
            hint="Look at LOOKERSDK_CLIENT_ID and LOOKERSDK_CLIENT_SECRET, or at the Looker block",
        )
        self.base_url = base_url
        self.status = status


class NoCredentials(ConfigurationError):
    """The address, the client id or the secret is missing."""

    def __init__(
        self, missing: str, prefix: str = "LOOKERSDK_", option: str = "--base-url"
    ) -> None:
        super().__init__(
            f"no Looker to ask: {missing} is not set",
            hint=f"Set {prefix}BASE_URL, {prefix}CLIENT_ID and {prefix}CLIENT_SECRET, or save "
            f"a Looker block and name it with {option} block:NAME",
        )
        self.missing = missing
