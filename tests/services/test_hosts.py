"""Four workers as four hosts, two with clocks that are wrong, and one quota; one dies in mid-run.

The services are those of deploy/compose.yaml, with two workers more. PostgreSQL, which holds what
Prefect knows, the leases and (in one case) the quota, is restarted in mid-run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
import yaml

from deploy.check import example_with_passwords
from deploy.local import Local
from deploy.topology import COMPOSE
from headrace.leases import LeaseStatus, open_leases
from headrace.sim import Arrival, SimulatedExchangeProcess, SlidingWindow
from tests.support.clock_shift import built_clock_shift, shifted
from tests.support.served import BIN, Server, wait_until
from tests.support.topology import local_topology

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(1800)]

PRODUCTS = [f"P{n}-USD" for n in range(8)]
PAGES, PER_S = 600, 15
TRADES = PAGES * 1000
#: Seconds by which the clocks of the hosts are wrong.
CLOCKS = {"worker-1": 0, "worker-2": 0, "worker-3": 3, "worker-4": -3}
#: For so long all four hosts work before one of them dies, in seconds.
TOGETHER_S = 60


def four_hosts(folder: Path, quota: str) -> Path:
    """The compose file with four workers, each of two runs at a time."""
    shift = built_clock_shift(folder)
    content: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    services = content["services"]
    pattern = yaml.safe_dump(services["worker-1"])
    for name, wrong_s in CLOCKS.items():
        variable = name.upper().replace("-", "_")
        each = yaml.safe_load(pattern.replace("worker-1", name).replace("WORKER_1", variable))
        each["command"] += ["--limit", "2"]
        environment = each["environment"]
        environment["HEADRACE_LEASE_TTL_S"] = "20"
        environment["PYTHONFAULTHANDLER"] = "1"
        if quota == "postgres":
            environment["HEADRACE_QUOTA"] = environment["HEADRACE_LEASES"]
        environment |= shifted(shift, wrong_s)
        services[name] = each
    written = folder / "compose.yaml"
    written.write_text(yaml.safe_dump(content))
    return written


class Share(NamedTuple):
    """What of the quota was used between two moments of the exchange's clock, in seconds."""

    began: float
    ended: float
    requests: int

    @property
    def used(self) -> float:
        """1 is all of it."""
        return self.requests / (self.ended - self.began) / PER_S


def together(arrivals: Sequence[Arrival]) -> Share | None:
    """From the first request of the product that came last, to now; None until all have one.

    As seen by the exchange, when it judged each request against its limit.
    """
    firsts: dict[str, float] = {}
    counted = [each for each in arrivals if each.counted_s is not None]
    for each in counted:
        if each.subject.product and "/trades" in each.target:
            firsts.setdefault(each.subject.product, each.counted_s or 0.0)
    if len(firsts) < len(PRODUCTS):
        return None
    began, ended = max(firsts.values()), max(each.counted_s or 0.0 for each in counted)
    return Share(began, ended, sum(began < (each.counted_s or 0.0) <= ended for each in counted))


@pytest.mark.parametrize("quota", ["postgres", "redis"])
def test_four_hosts_share_a_quota_and_one_dies(
    quota: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deploy.local.READY_LIMIT_S", 600.0)
    with ExitStack() as opened:
        tape = [f"{product}:{TRADES}" for product in PRODUCTS]
        limit = SlidingWindow(requests=PER_S, per_s=1)
        sim = opened.enter_context(
            # A run alone, three requests at a time, cannot use the whole quota: none is through
            # before the last one has begun.
            SimulatedExchangeProcess(*tape, seed=3, limits=[limit], latency="constant:s=0.6")
        )
        settings = example_with_passwords(tmp_path)
        settings.write_text(f"{settings.read_text()}EXCHANGE_URL={sim.url}\n")
        local = opened.enter_context(local_topology(four_hosts(tmp_path, quota)))
        local.up(settings, lambda _line: None)
        desk = {
            **os.environ,
            **local.services(settings)["worker-1"].environment,
            "HEADRACE_HOME": str(tmp_path / "desk"),
            "PREFECT_HOME": str(tmp_path / "desk/prefect"),
            "NO_PROXY": "*",
        }
        server = Server(tmp_path, desk, desk["PREFECT_API_URL"])
        # What the schedules start would take a place of a worker, and permits.
        server.prefect("deployment", "schedule", "pause", "--all")
        wait_until(lambda: ready(server), 120, "a worker")

        words = ["--spread", "8", "--chunk-concurrency", "3", "--json"]
        with (tmp_path / "desk.log").open("wb") as log:
            run = subprocess.Popen(
                [str(BIN / "headrace"), "backfill", *PRODUCTS, *words],
                cwd=tmp_path,
                env=desk,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        opened.callback(run.kill)
        wait_until(lambda: together(sim.arrivals()), 600, "requests for all products")
        at_work = parts_by_host(local, desk["HEADRACE_LEASES"])
        assert {name: len(parts) for name, parts in at_work.items()} == dict.fromkeys(CLOCKS, 2)
        share = wait_until(lambda: long_enough(sim.arrivals()), 120, "a minute of work")
        print(f"{share.used:.2%} of {PER_S}/s in {share.ended - share.began:.0f} s")

        kill_host(local, "worker-4")
        wait_until(lambda: len(sim.arrivals()) > share.requests + 20 * PER_S, 120, "more requests")
        restart_postgres(local, settings)
        said, _ = run.communicate(timeout=900)
        output = (tmp_path / "desk.log").read_text()
        assert run.returncode == 0, output
        counted = sim.stats()
        refused = [
            (round((each.counted_s or 0.0) - share.ended, 2), each.subject.product)
            for each in sim.arrivals()
            if each.status == 429
        ]
        audit = json.loads(server.command("audit", "--deep", "--json").stdout)

    # Seconds since the end of the minute, and the product.
    assert refused == []
    assert counted["most_in_window"]["1.0"] <= PER_S
    assert share.used >= 0.98
    summary = json.loads(said)
    assert summary["status"] == "done"
    assert {each["product"]: each["watermark"] for each in summary["products"]} == dict.fromkeys(
        PRODUCTS, TRADES
    )
    starts = {each["products"][0]: each["starts"] for each in summary["parts"]}
    assert starts == {each: 2 if each in at_work["worker-4"] else 1 for each in PRODUCTS}
    # Deep: every id is read, once, from the parts that answer for it.
    assert audit["status"] == "done"
    assert {
        each["product"]: (each["rows"], each["watermark"], each["findings"])
        for each in audit["products"]
    } == dict.fromkeys(PRODUCTS, (TRADES, TRADES, []))


def long_enough(arrivals: Sequence[Arrival]) -> Share | None:
    share = together(arrivals)
    return share if share and share.ended - share.began >= TOGETHER_S else None


def parts_by_host(local: Local, leases: str) -> dict[str, set[str]]:
    """The products that each host's runs hold the lease of."""
    families = {name: family_of(local, name) for name in CLOCKS}
    held = [
        (state.holder.pid, state.name)
        for state in open_leases(leases).list()
        if state.holder and state.status is LeaseStatus.HELD and "/spread/" not in state.name
    ]
    return {
        name: {
            product
            for pid, lease in held
            for product in PRODUCTS
            if pid in {each.pid for each in family} and f"/{product}@" in lease
        }
        for name, family in families.items()
    }


def family_of(local: Local, name: str) -> list[psutil.Process]:
    """A worker and all that it started."""
    record = local.process_of(name).running()
    assert record is not None, name
    root = psutil.Process(record.pid)
    return [*root.children(recursive=True), root]


def kill_host(local: Local, name: str) -> None:
    """SIGKILL to a worker and all that it started, as when its host is gone."""
    for each in family_of(local, name):
        try:
            each.kill()
        except psutil.NoSuchProcess:
            continue


def restart_postgres(local: Local, settings: Path) -> None:
    """As Docker restarts it: connections are closed, nothing is lost."""
    record = local.process_of("postgres").running()
    assert record is not None
    os.kill(record.pid, signal.SIGINT)
    wait_until(lambda: local.process_of("postgres").running() is None, 30, "the end of PostgreSQL")
    local.up(settings, lambda _line: None, only=["postgres"])


def ready(server: Server) -> bool:
    return bool(server.deployment("pull-part/spread")["status"] == "READY")
