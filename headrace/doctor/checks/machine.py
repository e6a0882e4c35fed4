"""What is installed, the state folder, and free disk space."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import psutil
from packaging.requirements import Requirement

from headrace import __version__
from headrace.doctor.runner import Finding, Target, ok, problem, warning
from headrace.errors import OTHER_STATE_FOLDER
from headrace.pull.request import BLOCK_PREFIX

_PYTHON_FROM, _PYTHON_BELOW = (3, 11), (3, 14)
_INSTALL = "Install headrace again; in a checkout: make setup"


def check_versions(_examined: Target) -> Iterator[Finding]:
    """What is installed, held against what the package says it needs."""
    python = ".".join(map(str, sys.version_info[:3]))
    if not _PYTHON_FROM <= sys.version_info[:2] < _PYTHON_BELOW:
        yield problem(f"Python {python} is not supported", "Use Python 3.11, 3.12 or 3.13")
    try:
        needed = [Requirement(text) for text in requires("headrace") or ()]
    except PackageNotFoundError:
        yield problem("headrace is not installed as a package", "pip install -e . in its folder")
        return
    wrong = False
    for requirement in needed:
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        finding = _finding(requirement)
        if finding is not None:
            wrong = True
            yield finding
    if not wrong:
        prefect, pyarrow = version("prefect"), version("pyarrow")
        yield ok(f"headrace {__version__}, Python {python}, prefect {prefect}, pyarrow {pyarrow}")


def _finding(requirement: Requirement) -> Finding | None:
    try:
        found = version(requirement.name)
    except PackageNotFoundError:
        return problem(f"{requirement.name} is not installed", _INSTALL)
    if requirement.specifier.contains(found, prereleases=True):
        return None
    return problem(
        f"{requirement.name} {found} is installed, {requirement.specifier} is needed", _INSTALL
    )


#: What the project makes for its user alone.
_PRIVATE = ("prefect", "quota", "leases")
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "afpfs"}


def check_state(target: Target) -> Iterator[Finding]:
    """The folder itself, its private parts, and what kind of file system it is on."""
    home = target.settings.home.expanduser().absolute()
    if not home.exists():
        yield of_missing(home, "command", OTHER_STATE_FOLDER)
        return
    found = [*_of_home(home), *_of_parts(home), *_of_file_system(home)]
    yield from found or [ok(f"{home} is private")]


def existing(path: Path) -> Path:
    """The path, or the nearest folder above it that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def of_missing(folder: Path, maker: str, remedy: str) -> Finding:
    """Whether a folder that does not exist can be made by this user when `maker` needs it."""
    above = existing(folder)
    if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
        return ok(f"{folder} does not exist yet; the first {maker} makes it")
    return problem(f"{folder} does not exist and cannot be made in {above}", remedy)


def _of_home(home: Path) -> Iterator[Finding]:
    if not home.is_dir():
        yield problem(f"{home} is not a folder", OTHER_STATE_FOLDER)
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
            OTHER_STATE_FOLDER,
        )


def _me() -> str:
    return str(os.geteuid())


_MIB = 2**20
#: A cell's file is about 1 MB and Prefect's database grows by some 10 MiB a day.
_TOO_LITTLE, _LITTLE = 64 * _MIB, 1024 * _MIB


def check_disks(target: Target) -> Iterator[Finding]:
    """Free bytes and, where the file system counts them, free inodes."""
    places = {"the state": target.settings.home.expanduser().absolute()}
    if "://" not in target.lake and not target.lake.startswith(BLOCK_PREFIX):
        places["the lake"] = Path(target.lake).expanduser().absolute()
    for what, place in places.items():
        yield _of_place(target, what, place)


def _of_place(target: Target, what: str, place: Path) -> Finding:
    folder = existing(place)
    free = target.disk_free(folder)
    files = os.statvfs(folder)
    words = f"{free / _MIB:,.0f} MiB free for {what} ({place})"
    if free < _TOO_LITTLE:
        return problem(f"only {words}", f"Free some space there, or move {what} elsewhere")
    if files.f_files and not files.f_favail:
        return problem(f"no inode is free for {what} ({place})", "Remove files on that disk")
    if free < _LITTLE:
        return warning(f"only {words}", "Free some space before a long backfill")
    return ok(words)
