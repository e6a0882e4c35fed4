"""What is to be checked, sound unless a test says otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.doctor import Target
from headrace.lake.opening import make_store
from headrace.settings import Settings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def target(home: Path, tmp_path: Path) -> Callable[..., Target]:
    """Makes what is to be checked: a fresh state folder, a fresh lake, no server."""

    def make(**changes: Any) -> Target:
        lake = changes.pop("lake", str(tmp_path / "lake"))
        settings = Settings(home=home, **changes.pop("settings", {}))
        return replace(
            Target(
                settings=settings,
                lake=lake,
                base_url="http://127.0.0.1:9",
                rate="10/s",
                api=None,
                database=home / "prefect" / "prefect.db",
                open_store=lambda: make_store(lake),
            ),
            **changes,
        )

    return make
