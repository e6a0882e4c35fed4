"""Whether the state folder is there for this user, and for nobody else."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil

from headrace.doctor.model import Examined, Finding, ok, problem, warning

#: What the project makes for its user alone.
_PRIVATE = ("prefect", "quota", "leases")
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "afpfs"}


def look_at_state(examined: Examined) -> Iterator[Finding]:
    """The folder itself, its private parts, and what kind of file system it is on."""
    home = examined.settings.home.expanduser().absolute()
    if not home.exists():
        yield _of_missing(home)
        return
    found = [*_of_home(home), *_of_parts(home), *_of_file_system(home)]
    yield from found or [ok(f"{home} is private")]


def existing(path: Path) -> Path:
    """The path, or the nearest folder above it that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _of_missing(home: Path) -> Finding:
    above = existing(home)
    if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
        return ok(f"{home} does not exist yet; the first command makes it")
    return problem(
        f"{home} does not exist and cannot be made in {above}",
        "Point HEADRACE_HOME to a folder of your own on a local disk",
    )


def _of_home(home: Path) -> Iterator[Finding]:
    if not home.is_dir():
        yield problem(f"{home} is no folder", "Point HEADRACE_HOME to a folder of your own")
        return
    found = home.stat()
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        yield problem(
            f"{home} cannot be written by this user",
            f"Make it yours (sudo chown -R {_me()} {home}), or point HEADRACE_HOME elsewhere",
        )
    elif found.st_uid != os.geteuid():
        yield warning(
            f"{home} belongs to user {found.st_uid}, not to you ({os.geteuid()})",
            f"sudo chown -R {_me()} {home}",
        )
    if stat.S_IMODE(found.st_mode) & 0o022:
        yield problem(
            f"others may write in {home} (mode {stat.S_IMODE(found.st_mode):04o})",
            f"chmod go-w {home}",
        )


def _of_parts(home: Path) -> Iterator[Finding]:
    for name in _PRIVATE:
        part = home / name
        if not part.is_dir():
            continue
        found = part.stat()
        mode = stat.S_IMODE(found.st_mode)
        if found.st_uid != os.geteuid():
            yield problem(
                f"{part} belongs to user {found.st_uid}, not to you ({os.geteuid()})",
                f"sudo chown -R {_me()} {part}",
            )
        if mode & 0o077:
            what = "write in" if mode & 0o022 else "look into"
            say = problem if mode & 0o022 else warning
            yield say(f"others may {what} {part} (mode {mode:04o})", f"chmod 700 {part}")


def _of_file_system(home: Path) -> Iterator[Finding]:
    mounts = [
        (len(Path(mount.mountpoint).parts), mount.fstype)
        for mount in psutil.disk_partitions(all=True)
        if home.is_relative_to(mount.mountpoint)
    ]
    kind = max(mounts, default=(0, ""))[1]
    if kind in _NETWORK:
        yield problem(
            f"{home} is on a network share ({kind}), where SQLite's locks do not hold",
            "Point HEADRACE_HOME to a local disk",
        )


def _me() -> str:
    return str(os.geteuid())
