"""Each peer's own virtual environment, from pinned requirements with hashes."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
REQUIREMENTS = Path(__file__).parent / "requirements"
SCRIPTS = Path(__file__).parent / "scripts"
FOLDER = PROJECT / ".venv" / "peers"
_PIN = re.compile(r"^([A-Za-z0-9_.-]+)==([^ ;\\]+)", re.MULTILINE)


class CannotInstall(Exception):
    """A peer's requirements could not be installed; the message is the installer's last line."""


def python_of(name: str) -> str:
    """The interpreter of an environment, which is made if it is not there or not up to date.

    Args:
        name: of its requirements; empty for the environment that this runs in.

    Raises:
        CannotInstall: with what the installer said last.
    """
    if not name:
        return sys.executable
    folder, requirements = FOLDER / name, REQUIREMENTS / f"{name}.txt"
    python, made_of = folder / "bin/python", folder / ".made-of"
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if made_of.exists() and made_of.read_text() == wanted:
        return str(python)
    print(f"installing {name} into {folder.relative_to(PROJECT)}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    uv = shutil.which("uv")
    if uv:
        make = [uv, "venv", "--quiet", "--python", sys.executable, str(folder)]
        install = [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", str(python)]
    else:
        make = [sys.executable, "-m", "venv", str(folder)]
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in (make, [*install, "--require-hashes", "-r", str(requirements)]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
            raise CannotInstall(said[-1].strip())
    made_of.write_text(wanted)
    return str(python)


def pinned(name: str, package: str) -> str:
    """The version of a package in an environment, by its requirements.

    Args:
        name: of the requirements; empty for those of this project.
        package: as the requirements write it.
    """
    path = REQUIREMENTS / f"{name}.txt" if name else PROJECT / "requirements/run.txt"
    return dict(_PIN.findall(path.read_text()))[package]


def lines_of(script: str) -> int:
    """How many lines of code were written around a peer: none for a command."""
    if not script:
        return 0
    path = SCRIPTS / script if (SCRIPTS / script).exists() else PROJECT / "bench" / script
    return sum(1 for line in path.read_text().splitlines() if line.strip())
