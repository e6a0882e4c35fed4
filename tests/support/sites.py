"""Whole flows and commands on a lake in a folder and in a bucket: fixtures, and an exchange."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.cli.server import RunningServer
from headrace.sim import SimulatedExchange
from tests.support.places import Place, local_place, s3_place
from tests.support.processes import PRODUCT, Headrace

#: The command, with the exchange and the lake that it works on.
Sites = Callable[[SimulatedExchange, Place], Headrace]


@pytest.fixture(params=["local", "seaweed"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A new lake: in a folder, then in a bucket."""
    if request.param == "local":
        return local_place(tmp_path)
    return s3_place(request.getfixturevalue("seaweed_url"), tmp_path)


@pytest.fixture
def site(headrace_home: Path, prefect_server: RunningServer) -> Sites:
    """Makes commands that use the session's Prefect server."""
    return lambda sim, place: Headrace(headrace_home, sim, place, prefect_server)


@contextmanager
def exchange(trades: int, latency_s: float, *, more: str = "") -> Iterator[SimulatedExchange]:
    """An exchange with so many trades of one product, all answers as late.

    Args:
        trades: of `PRODUCT`.
        latency_s: of each answer.
        more: fields of the product, `,growth_per_s=1`.
    """
    spec = f"{PRODUCT}:{trades}{more}"
    with SimulatedExchange(spec, seed=3, latency=f"constant:s={latency_s}") as sim:
        yield sim
