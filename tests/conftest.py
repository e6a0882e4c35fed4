"""The order of all tests.

Those that run flows come first: they wait for a server most of their time, and so they run beside
tests that need a processor. At the end, by themselves, they would make all wait.
"""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Flows first; apart from that, the order stays."""
    items.sort(key=lambda item: item.get_closest_marker("flows") is None)
