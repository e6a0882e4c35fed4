"""Compiled modules, where nobody may write them beside their source.

Compiling what a Prefect server imports takes 10 s, what a flow imports 3 s. Where nothing was
compiled at installation and nothing may be now (`PYTHONDONTWRITEBYTECODE`, a read-only
installation), every start would pay for that; so we keep it in the user's cache folder.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import platformdirs


def prefect_source() -> Path | None:
    """Return Prefect's `__init__.py`, without importing it; None if it is not installed."""
    spec = importlib.util.find_spec("prefect")
    return None if spec is None or spec.origin is None else Path(spec.origin)


def bytecode_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return where compiled modules are to be kept; None to leave it to Python."""
    source = prefect_source()
    if source is None or environ.get("PYTHONPYCACHEPREFIX"):
        return None
    beside = source.parent / "__pycache__"
    if any(beside.glob(f"{source.stem}.{sys.implementation.cache_tag}*.pyc")):
        return None
    if not environ.get("PYTHONDONTWRITEBYTECODE") and os.access(source.parent, os.W_OK):
        return None
    return platformdirs.user_cache_path("headrace", appauthor=False) / "bytecode"


def bytecode_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return what a child process needs in its environment to use that folder."""
    folder = bytecode_folder(environ)
    if folder is None:
        return {}
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder)}


def use_bytecode_folder() -> None:
    """Use that folder for all that this process has yet to import."""
    folder = bytecode_folder()
    if folder is not None:
        sys.pycache_prefix = str(folder)
        sys.dont_write_bytecode = False
