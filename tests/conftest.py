"""The order of all tests, and the settings of generated examples.

Those that run flows come first: they wait for a server most of their time, and so they run beside
tests that need a processor. At the end, by themselves, they would make all wait.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# An example that takes long on a busy machine is no failure.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Flows first; apart from that, the order stays."""
    items.sort(key=lambda item: item.get_closest_marker("flows") is None)
