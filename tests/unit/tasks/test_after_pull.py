"""What a pull is seldom asked for is not imported by pulls that are not."""

from __future__ import annotations

import json
import subprocess
import sys

#: Each is needed for a transform, a check or the page of a lake alone.
SELDOM = ["tasks.transform", "tasks.check", "tasks.lake_report", "headrace.unified.table",
          "headrace.checks.checker", "pyarrow.dataset"]  # fmt: skip
PROGRAM = """
import json, sys
import {module}
print(json.dumps([name for name in {seldom} if name in sys.modules]))
"""


def imported_with(module: str) -> list[str]:
    code = PROGRAM.format(module=module, seldom=SELDOM)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


def test_a_pull_imports_neither_transform_nor_checks() -> None:
    assert imported_with("flows.ingest, flows.backfill") == []


def test_they_are_what_a_transform_and_a_check_import() -> None:
    """The test above looks at the right names."""
    assert imported_with("flows.transform, flows.check") == SELDOM
