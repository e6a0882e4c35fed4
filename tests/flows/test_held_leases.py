"""A held lease ends every pipeline alike: the same state, the same words, exit code 3."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support.looker import SECRET
from support.pulls import run_backfill

from headrace.cli.exit_codes import Exit, exit_of_report
from headrace.delivery.request import queue_lease
from headrace.lake.names import location_digest
from headrace.leases import hold, open_leases
from headrace.looker.extract.request import vault_lease
from headrace.pull.product_leases import ProductLeases
from headrace.settings import load_settings
from headrace.sim import SimulatedExchange
from headrace.sim.looker import SimulatedLooker

pytestmark = pytest.mark.flows

Ready = AbstractContextManager[tuple[str, dict[str, Any]]]


def _leases() -> Any:
    return open_leases(load_settings().lease_location)


@contextmanager
def _pull(tmp_path: Path, flow: str) -> Iterator[tuple[str, dict[str, Any]]]:
    lake = tmp_path / "lake"
    with SimulatedExchange("BTC-USD:3000", seed=5) as sim:
        asked = {"lake": str(lake), "base_url": sim.url, "rate": "none", "products": ["BTC-USD"]}
        if flow == "audit":
            run_backfill(sim, lake, ["BTC-USD"], pages_per_chunk=1)
            next(lake.rglob("part-*.parquet")).write_bytes(b"")
            asked |= {"heal": True}
        product_leases = ProductLeases(_leases(), "coinbase", "BTC-USD", str(lake))
        with hold(
            _leases(), product_leases.run("ingest" if flow == "ingest" else "backfill"), run_id="x"
        ):
            yield flow, asked


@contextmanager
def _looker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, dict[str, Any]]]:
    vault = tmp_path / "looker.sqlite"
    with (
        SimulatedLooker(counts={"look": 5}) as sim,
        hold(_leases(), vault_lease(vault), run_id="x"),
    ):
        monkeypatch.setenv("LOOKERSDK_BASE_URL", sim.url)
        monkeypatch.setenv("LOOKERSDK_CLIENT_ID", "headrace")
        monkeypatch.setenv("LOOKERSDK_CLIENT_SECRET", SECRET)
        yield "looker", {"vault": str(vault), "rate": "none"}


@contextmanager
def _queue() -> Iterator[tuple[str, dict[str, Any]]]:
    with hold(_leases(), queue_lease("held"), run_id="x"):
        yield "keyed_requests", {"base_url": "http://127.0.0.1:9", "queue": "held", "count": 1}


@contextmanager
def _log(tmp_path: Path, flow: str, **more: str) -> Iterator[tuple[str, dict[str, Any]]]:
    store = tmp_path / "sot"
    with hold(_leases(), f"sot@{location_digest(str(store))}:write", run_id="x"):
        yield flow, {"store": str(store), **more}


PIPELINES: dict[str, Callable[[Path, pytest.MonkeyPatch], Ready]] = {
    "backfill": lambda path, _: _pull(path, "backfill"),
    "ingest": lambda path, _: _pull(path, "ingest"),
    "audit": lambda path, _: _pull(path, "audit"),
    "looker": _looker,
    "keyed-requests": lambda path, _: _queue(),
    "sot-write": lambda path, _: _log(path, "sot_write", source=str(path / "in.sot")),
    "sot-migrate": lambda path, _: _log(
        path, "sot_migrate", old=str(path / "old.db"), action="begin"
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_a_held_lease_ends_the_run_as_already_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with PIPELINES[name](tmp_path, monkeypatch) as (module, parameters):
        flow = getattr(import_module(f"flows.{module}"), module)
        state = flow(**parameters, return_state=True)
    assert state.name == "AlreadyRunning"
    assert state.message.startswith("already running elsewhere"), state.message
    report = state.result()
    assert report.as_json()["status"] == "running_elsewhere"
    assert exit_of_report(report) == Exit.RUNNING_ELSEWHERE == 3
