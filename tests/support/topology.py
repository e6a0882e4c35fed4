"""The services of deploy/compose.yaml as processes, in a folder that goes when the test ends."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.local import Local
from deploy.postgres import programs_folder
from deploy.topology import COMPOSE


@contextmanager
def local_topology(compose: Path = COMPOSE) -> Iterator[Local]:
    """A state folder that PostgreSQL's user can reach, and addresses of its own; nothing is up."""
    if programs_folder() is None or shutil.which("redis-server") is None:
        pytest.skip("no PostgreSQL or no Redis on this machine")
    folder = Path(tempfile.mkdtemp(prefix="headrace-deploy-"))
    folder.chmod(0o711)
    network = f"127.{random.randrange(20, 250)}.{random.randrange(250)}"
    topology = Local(folder / "state", network, compose)
    try:
        yield topology
    finally:
        topology.down()
        shutil.rmtree(folder)
