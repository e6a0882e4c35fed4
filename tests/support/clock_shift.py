"""A wall clock that is wrong, for a process and what it starts."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCE = Path(__file__).with_suffix(".c")


def built_clock_shift(folder: Path) -> Path:
    """The library that `shifted` names; skips the test without a C compiler."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler on this machine (Debian: apt-get install gcc libc6-dev)")
    library = folder / "clock_shift.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, _SOURCE], check=True)
    return library


def shifted(library: Path, wrong_s: int) -> dict[str, str]:
    """The environment of a process whose clock is wrong by so many seconds."""
    return {"LD_PRELOAD": str(library), "CLOCK_SHIFT_S": str(wrong_s)} if wrong_s else {}
