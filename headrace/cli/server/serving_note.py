"""What the serving process has to say: what it serves, from where, and what ails it.

One file in the state folder, replaced as a whole, so that `headrace status` tells of it without
Prefect.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from headrace.cli.server.state import StateFolder

#: The name of the serving process among the managed ones.
DEPLOYMENTS = "deployments"


class ServingNote(msgspec.Struct, frozen=True, kw_only=True):
    """What is served.

    Attributes:
        token: of the process that says so; a note of an earlier one counts for nothing.
        deployments: `flow/name` of each, once they can be started.
        plan: the file they come from.
        folder: where runs work; a relative `lake` is relative to it.
        problem: why nothing is served, if so.
        restarts: how often the supervisor had to start the runner anew.
    """

    token: str
    deployments: list[str] = []
    plan: str = ""
    folder: str = ""
    problem: str = ""
    restarts: int = 0


def note_path(folder: StateFolder) -> Path:
    """Where the note lies."""
    return folder.path / "deployments.json"


def read_note(folder: StateFolder, token: str) -> ServingNote | None:
    """The note of the process with this token, if it has written one yet."""
    try:
        note = msgspec.json.decode(note_path(folder).read_bytes(), type=ServingNote)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    return note if note.token == token else None


def write_note(folder: StateFolder, note: ServingNote) -> None:
    """Replace the note."""
    folder.replace(note_path(folder), msgspec.json.encode(note))
