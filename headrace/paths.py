"""Paths as people write them."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.errors import ConfigurationError


def user_path(text: str | Path) -> Path:
    """The path with the home folder in the place of `~` or `~user`.

    Raises:
        ConfigurationError: there is no such user, or none that has a home folder.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ConfigurationError(
            f"{str(text)!r} cannot be used: {str(error).rstrip('.')}",
            hint="Write the path without ~",
        ) from error


def real_path(text: str | Path) -> Path:
    """The one spelling of a path: absolute, without symbolic links.

    Raises:
        ConfigurationError: as `user_path`.
    """
    return Path(os.path.realpath(user_path(text)))


def working_folder() -> Path:
    """The folder in which this process works.

    Raises:
        ConfigurationError: it was removed, or may not be entered.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise ConfigurationError(
            f"the folder in which this was started cannot be used ({error.strerror})",
            hint="Change to another folder (cd), then run it again",
        ) from error
