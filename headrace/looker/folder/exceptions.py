"""What can go wrong with a folder of unpacked items."""

from __future__ import annotations

from pathlib import Path

from headrace.errors import ConfigurationError, StateError


class FolderForeign(ConfigurationError):
    """The folder holds something else, or no record of what was unpacked into it."""

    def __init__(self, folder: Path, reason: str, hint: str) -> None:
        super().__init__(f"{folder}: {reason}", hint=hint)
        self.folder = folder
        self.reason = reason


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
