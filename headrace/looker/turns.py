"""Whose turn it is at a vault: one run at a time extracts into it."""

from __future__ import annotations

from pathlib import Path

from headrace.pull.turns import lake_tag


def vault_lease(path: Path) -> str:
    """Name of the lease of whoever writes what a Looker says into the vault at `path`."""
    return f"looker/extract@{lake_tag(str(path))}"
