"""One Prefect server for all flow tests of a session, and none when no flow test runs.

With pytest-xdist the workers share it: it is started by the first that needs it and stopped by the
last that leaves.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.server import RunApi, managed_api


@pytest.fixture(scope="session")
def headrace_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder of this test session, shared by its xdist workers."""
    base = tmp_path_factory.getbasetemp()
    session = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return session / "headrace-home"


@pytest.fixture(scope="session", autouse=True)
def prefect_api(headrace_home: Path) -> Iterator[RunApi]:
    """A managed server, whatever the developer's own settings say."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADRACE_HOME", str(headrace_home))
        patch.setenv("PREFECT_HOME", str(headrace_home / "prefect-client"))
        with managed_api(headrace_home) as api:
            yield api
