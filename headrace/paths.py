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
