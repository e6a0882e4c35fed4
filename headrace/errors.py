"""The root of every error that Headrace raises on purpose.

Each package owns its `exceptions.py`, whose classes carry data (product, cursor, path), not only
text. What they share stands here: a message that says what happened to what, and a hint that says
what to do next. The command line turns them into one line and an exit code; a traceback is a bug.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

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


class PlaceError(HeadraceError):
    """Something is wrong with what is at a place. A subclass has the words for it.

    Attributes:
        said: the message, with `{where}` and `{reason}` in it.
        way_out: the hint, where an error is not given one of its own.
        where: the file, folder, object, block, server or product.
        reason: what is wrong; empty where the class says it all.
    """

    said: ClassVar[str]
    way_out: ClassVar[str] = ""

    def __init__(self, where: str | Path, reason: str = "", *, hint: str = "") -> None:
        super().__init__(self.said.format(where=where, reason=reason), hint=hint or self.way_out)
        self.where = str(where)
        self.reason = reason


class NewerVersion(StateError):
    """What is at a place was written by a newer version of Headrace. It was left as it is.

    Attributes:
        said: the message of a subclass, with `{where}`, `{found}` and `{known}` in it.
        way_out: its hint.
        where: the file, object, table or product.
        found: the version that was found.
        known: the newest version that can be read here.
    """

    said: ClassVar[str]
    way_out: ClassVar[str] = "Upgrade headrace"

    def __init__(self, where: str | Path, found: int, known: int) -> None:
        super().__init__(self.said.format(where=where, found=found, known=known), hint=self.way_out)
        self.where = str(where)
        self.found = found
        self.known = known
