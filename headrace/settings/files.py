"""Settings in files: `headrace.toml` of the current folder, then that of the user.

A file has the names of the settings in lower case, without `HEADRACE_`: `lake = "s3://trades/lake"`.
Free of pydantic, since the command looks here before it loads anything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from headrace.errors import ConfigurationError

FILE = "headrace.toml"


class SettingsFileUnusable(ConfigurationError):
    """A settings file cannot be read, is no TOML, or has what is no setting."""

    def __init__(self, path: Path, problem: str, *, hint: str = "Correct the file") -> None:
        super().__init__(f"{path}{problem}", hint=hint)
        self.path = path


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """What one file says.

    Attributes:
        path: absolute.
        values: by the name of the setting; an empty text is as good as none.
        lines: where each name stands, from 1.
    """

    path: Path
    values: dict[str, Any]
    lines: dict[str, int]

    def place_of(self, name: str) -> str:
        """`PATH:LINE` of a setting."""
        return f"{self.path}:{self.lines.get(name, 1)}"


def places() -> list[Path]:
    """Where files may be, the first one that has a setting wins."""
    import platformdirs

    found = [Path(FILE)]
    # No HOME, and a user that the system does not know: no file either.
    with suppress(RuntimeError):
        found.append(Path(platformdirs.user_config_dir("headrace", appauthor=False), FILE))
    return found


def read_files(names: Collection[str]) -> list[SettingsFile]:
    """The files that exist, in the order of `places`.

    Args:
        names: of all settings there are.

    Raises:
        SettingsFileUnusable: naming the file, and the line where there is one.
    """
    read = [_read(path) for path in _existing()]
    for file in read:
        _refuse_unknown(file, names)
    return read


def peek(name: str) -> Any:
    """What the files say of one setting, None where they say nothing or cannot be read."""
    try:
        found = [_read(path) for path in _existing()]
    except ConfigurationError:  # said by what reads all settings
        return None
    return next((file.values[name] for file in found if name in file.values), None)


def _existing() -> list[Path]:
    """The files that there are; none in a folder that this user may not enter."""
    return [path.absolute() for path in places() if os.path.exists(path)]  # noqa: PTH110


def _read(path: Path) -> SettingsFile:
    import tomllib

    try:
        text = path.read_bytes().decode("utf-8")
        values = tomllib.loads(text)
    except OSError as error:
        raise SettingsFileUnusable(
            path, f" cannot be read: {error.strerror or error}", hint="Correct it, or remove it"
        ) from error
    except UnicodeDecodeError as error:
        raise SettingsFileUnusable(path, " cannot be read: it is not UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsFileUnusable(path, f" is not TOML: {error}") from error
    lines = {name: _line_of(name, text) for name in values}
    return SettingsFile(path, {name: v for name, v in values.items() if v != ""}, lines)


def _line_of(name: str, text: str) -> int:
    found = re.search(rf"""^[\s\[]*["']?{re.escape(name)}["']?\s*[=\].]""", text, re.MULTILINE)
    return text.count("\n", 0, found.end()) + 1 if found else 1


def _refuse_unknown(file: SettingsFile, names: Collection[str]) -> None:
    unknown = [name for name in file.lines if name not in names]
    if not unknown:
        return
    near = {name: get_close_matches(name.lower().removeprefix("headrace_"), names, n=1)
            for name in unknown}  # fmt: skip
    said = ", ".join(
        f"{name!r} in line {file.lines[name]}" + "".join(f" (meant: {one}?)" for one in near[name])
        for name in unknown
    )
    hint = "Correct or remove the name" if len(unknown) == 1 else "Correct or remove the names"
    if not all(near.values()):
        hint += f"; the settings are {', '.join(names)}"
    raise SettingsFileUnusable(file.path, f" has what is no setting: {said}", hint=hint)
