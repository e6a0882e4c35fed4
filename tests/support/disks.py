"""Small file systems to fill up.

from tests.support.disks import small_disk  # noqa: F401
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 320 KB, where the machine lets us mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=320k", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def enlarge(disk: Path) -> None:
    """Give it room for all that a test stores."""
    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
