"""Python, this package, and the packages that it needs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

from headrace import __version__
from headrace.doctor.model import Examined, Finding, ok, problem

_PYTHON_FROM, _PYTHON_BELOW = (3, 11), (3, 14)
_INSTALL = "Install what the project pins: pip install --require-hashes -r requirements/run.txt"


def look_at_versions(_examined: Examined) -> Iterator[Finding]:
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
