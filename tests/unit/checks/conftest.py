from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.checks import CheckedLake


@pytest.fixture
def lake(tmp_path: Path) -> CheckedLake:
    return CheckedLake(tmp_path / "lake")
