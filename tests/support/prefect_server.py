"""One Prefect server for the tests that run flows as processes of their own.

Unlike the one of tests/flows it changes nothing in this process: who is started with
`HEADRACE_HOME` finds it. Both use the same folder, so a session that runs both has one server.

    from tests.support.prefect_server import headrace_home, prefect_server  # noqa: F401
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from blocks.checkpoint import checkpoint_name
from headrace.cli.server import ManagedServer, RunningServer
from headrace.pull.checkpoints import Checkpoint, read_checkpoint

SOURCE = "coinbase"


@pytest.fixture(scope="session")
def headrace_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder of this test session, shared by its xdist workers."""
    base = tmp_path_factory.getbasetemp()
    session = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return session / "headrace-home"


@pytest.fixture(scope="session")
def prefect_server(headrace_home: Path) -> Iterator[RunningServer]:
    """The managed server of that folder, until the session ends."""
    with ManagedServer(headrace_home).used() as server:
        yield server


def saved_checkpoint(api_url: str, lake: str, product: str) -> Checkpoint | None:
    """What the API keeps as the checkpoint of a product, asked without Prefect's own client."""
    name = checkpoint_name(lake, SOURCE, product)
    url = f"{api_url}/block_types/slug/headrace-checkpoint/block_documents/name/{name}"
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            stored = json.load(answer)["data"]["checkpoint"]
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise
    return read_checkpoint(stored, lake=lake, source=SOURCE, product=product)
