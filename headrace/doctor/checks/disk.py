"""Room for state and for the lake."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from headrace.doctor.checks.state import existing
from headrace.doctor.model import Examined, Finding, ok, problem, warning
from headrace.pull.request import BLOCK_PREFIX

_MIB = 2**20
#: A cell's file is about 1 MB and Prefect's database grows by some 10 MiB a day.
_TOO_LITTLE, _LITTLE = 64 * _MIB, 1024 * _MIB


def look_at_disks(examined: Examined) -> Iterator[Finding]:
    """Free bytes and, where the file system counts them, free inodes."""
    places = {"the state": examined.settings.home.expanduser().absolute()}
    if "://" not in examined.lake and not examined.lake.startswith(BLOCK_PREFIX):
        places["the lake"] = Path(examined.lake).expanduser().absolute()
    for what, place in places.items():
        yield _of_place(examined, what, place)


def _of_place(examined: Examined, what: str, place: Path) -> Finding:
    folder = existing(place)
    free = examined.disk_free(folder)
    files = os.statvfs(folder)
    words = f"{free / _MIB:,.0f} MiB free for {what} ({place})"
    if free < _TOO_LITTLE:
        return problem(f"only {words}", f"Free some space there, or move {what} elsewhere")
    if files.f_files and not files.f_favail:
        return problem(f"no inode is free for {what} ({place})", "Remove files on that disk")
    if free < _LITTLE:
        return warning(f"only {words}", "Free some space before a long backfill")
    return ok(words)
