from __future__ import annotations

from pathlib import Path

import pytest

from headrace.lake import Grid, RawLake
from headrace.lake.local import LocalStore
from tests.support.audits import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(RawLake(LocalStore(tmp_path / "lake"), "coinbase", Grid(cell_pages=5)))
