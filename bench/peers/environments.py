"""Each peer's own virtual environment, from pinned requirements with hashes."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
REQUIREMENTS = Path(__file__).parent / "requirements"
SCRIPTS = Path(__file__).parent / "scripts"
FOLDER = PROJECT / ".venv" / "peers"


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


def versions_of(name: str, packages: Sequence[str]) -> dict[str, str]:
    """What an environment holds of some packages; nothing of one that could not be made."""
    ask = "import sys, importlib.metadata as m; print(*map(m.version, sys.argv[1:]))"
    python = FOLDER / name / "bin/python" if name else Path(sys.executable)
    if not python.exists():
        return {}
    command = [str(python), "-c", ask, *packages]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(zip(packages, done.stdout.split(), strict=True))


def lines_of(script: str) -> int:
    """How many lines of code were written around a peer: none for a command."""
    if not script:
        return 0
    path = SCRIPTS / script if (SCRIPTS / script).exists() else PROJECT / "bench" / script
    return sum(1 for line in path.read_text().splitlines() if line.strip())
