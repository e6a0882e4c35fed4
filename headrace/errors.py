"""The root of every error that Headrace raises on purpose.

Each package owns its `exceptions.py`, whose classes carry data (product, cursor, path), not only
text. What they share stands here: a message that says what happened to what, and a hint that says
what to do next. The command line turns them into one line and an exit code; a traceback is a bug.
"""

from __future__ import annotations

#: The next step where the state folder, or what lies in it, cannot be made or written.
OTHER_STATE_FOLDER = "Point HEADRACE_HOME to a folder of your own on a local disk"
CHECK_STATE_FOLDER = (
    "Check the folder, its permissions and the disk, or point HEADRACE_HOME to a folder of your own"
)


class HeadraceError(Exception):
    """Something failed in a way that we foresaw.

    Args:
        message: what happened, and to what (product, range, path).
        hint: the next step for the person who reads it.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}" if self.hint else self.message


class ConfigurationError(HeadraceError):
    """A setting, an option or an argument cannot be used; nothing was started (exit code 2)."""


class StateError(HeadraceError):
    """State on disk is damaged, newer than this version or contradictory; it was left as it is."""
