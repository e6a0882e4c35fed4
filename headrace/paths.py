"""Paths as people write them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from headrace.errors import ConfigurationError
from headrace.locks import lock

_NO_HARD_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


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


def publish_new(draft: Path, path: Path) -> bool:
    """Give a complete file its name, unless another file has it; return whether it was free.

    `draft` is on the same file system, and may be gone afterwards.

    Raises:
        LockTimeout: on a file system without hard links, another process kept the folder locked.
        OSError: the file system does not take it.
    """
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        return _rename_new(draft, path)
    return True


def _rename_new(draft: Path, path: Path) -> bool:
    """The same without hard links (FAT, some network file systems): one process at a time."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        lock(folder, path.parent)
        if path.exists():
            return False
        draft.rename(path)
    finally:
        os.close(folder)
    return True
