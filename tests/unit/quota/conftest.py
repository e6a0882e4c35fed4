from __future__ import annotations

import pytest

SECOND = 1_000_000_000


class FakeClock:
    """A clock that moves only when a test moves it."""

    def __init__(self) -> None:
        self.boot_id = "boot-1"
        self.slack = 0
        self.at = 1_000 * SECOND

    def now(self) -> int:
        return self.at

    def advance(self, seconds: float) -> None:
        self.at += round(seconds * SECOND)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()
