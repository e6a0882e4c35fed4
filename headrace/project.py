"""Where `flows`, `tasks`, `blocks` and `prefect.yaml` are, and how they are found by these names.

In a checkout they lie beside this package. A wheel has them inside of it, in `_project`: at the top
of site-packages they would be in the place of packages of the user's that have the same names.
Processes of ours look there first; no other process sees them (docs/adr/0019-names-in-a-wheel.md).

`python -m headrace.project` prints the folder, for the PYTHONPATH of workers that run flows.
"""

from __future__ import annotations

import sys
from pathlib import Path

#: The packages that a checkout has at its top.
PACKAGES = ("flows", "tasks", "blocks")

_PACKAGE = Path(__file__).parent


def project_folder() -> Path:
    """The folder that holds the three packages and `prefect.yaml`."""
    installed = _PACKAGE / "_project"
    return installed if installed.is_dir() else _PACKAGE.parent


def put_project_first() -> None:
    """Find the three packages in their folder, whatever else has these names, here and in children
    that take over the path of this process.
    """
    sys.path.insert(0, str(project_folder()))


def packages_of_others(folder: Path) -> list[str]:
    """Those of the three names that mean something else in a folder."""
    if folder.resolve() == project_folder().resolve():
        return []
    return [name for name in PACKAGES if (folder / name).is_dir()]


if __name__ == "__main__":
    sys.stdout.write(f"{project_folder()}\n")
