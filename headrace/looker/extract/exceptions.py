"""What can go wrong with an extraction as a whole."""

from __future__ import annotations

from headrace.errors import ConfigurationError, HeadraceError


class UnknownFolder(ConfigurationError):
    """A folder that Looker does not have, or does not show to the caller."""

    def __init__(self, folder_id: str) -> None:
        super().__init__(
            f"Looker knows no folder {folder_id!r}",
            hint="`headrace looker list folder` shows those in the vault",
        )
        self.folder_id = folder_id


class ListingShifts(HeadraceError):
    """A listing moved between its pages faster than the gaps could be read."""

    def __init__(self, type_: str, listing: str, start: int) -> None:
        super().__init__(f"{type_}: {listing} changes at {start} while it is read")
        self.type = type_
        self.listing = listing
        self.start = start


class CheckpointUnusable(HeadraceError):
    """A checkpoint of an extraction that is newer than this version, or damaged."""
