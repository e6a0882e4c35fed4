"""How far a reader has come in each chain: enough to go on, and to notice another history."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from headrace.atomic_files import put_whole
from headrace.errors import ConfigurationError, PlaceError
from headrace.sot.acknowledged_heads import KeptHead

CURSOR_VERSION = 1


class CursorUnusable(PlaceError, ConfigurationError):
    """A file that is no cursor, or cannot be read or written (exit code 2).

    Attributes:
        where: the file.
        reason: why not.
    """

    said = "the cursor {where} cannot be used: {reason}"
    way_out = "Name another file; one that does not exist begins at the beginning"


class Reached(KeptHead):
    """How far one chain was read.

    Attributes:
        order: the largest `input_seq` of its records so far, as text.
    """

    order: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,20}$")] = "0"


class Cursor(BaseModel, frozen=True, extra="forbid"):
    """How far a log was read; what is not named was not begun.

    Attributes:
        symbols: by symbol.
        order: the largest order of all records so far, as text.
    """

    version: int = CURSOR_VERSION
    order: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,20}$")] = "0"
    symbols: dict[Annotated[str, StringConstraints(pattern=r"^[0-9]{1,10}$")], Reached] = Field(
        default_factory=dict
    )


def load_cursor(path: Path) -> Cursor:
    """The cursor in a file; one at the beginning if there is no file.

    Raises:
        CursorUnusable: it is something else, or of a later version.
    """
    try:
        stored = path.read_bytes()
    except FileNotFoundError:
        return Cursor()
    except OSError as error:
        raise CursorUnusable(str(path), error.strerror or str(error)) from error
    try:
        cursor = Cursor.model_validate_json(stored)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise CursorUnusable(str(path), f"{field}: {first['msg']}".removeprefix(": ")) from error
    if cursor.version != CURSOR_VERSION:
        raise CursorUnusable(
            str(path), f"version {cursor.version}; this version of headrace knows {CURSOR_VERSION}"
        )
    return cursor


def save_cursor(path: Path, cursor: Cursor) -> None:
    """Replace the cursor in a file; durable when it returns.

    Raises:
        CursorUnusable: the disk does not take it.
    """
    try:
        put_whole(path, cursor.model_dump_json().encode() + b"\n", replace=True, mode=0o644)
    except OSError as error:
        raise CursorUnusable(str(path), error.strerror or str(error)) from error
