"""SIGKILL at random moments of an extraction, then another: the vault equals the Looker."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.looker import assert_vault_equals

from headrace.looker.content_types import TYPES, content_of
from headrace.looker.extract.writer import BATCHES_PER_WORKER
from headrace.looker.vault import Vault
from headrace.sim.looker import SimulatedLookerProcess

TESTS = Path(__file__).parents[1]
COUNTS = {"dashboard": 4_000, "look": 500, "user": 300, "lookml_model": 10, "explore": 10}
FIELDS = {"workers": 4}
MOST_REPEATED = FIELDS["workers"] * (1 + BATCHES_PER_WORKER)


def start(url, vault):
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    return subprocess.Popen(
        [sys.executable, "-m", "support.looker", url, str(vault), json.dumps(FIELDS)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def finish(url, vault):
    with start(url, vault) as run:
        said, _ = run.communicate(timeout=100)
    assert run.returncode == 0
    return json.loads(said.splitlines()[-1])


def content_requests(sim):
    return [a.target for a in sim.arrivals() if a.subject.ask in ("list", "item")]


def stored_items(path):
    """Paths of the single items that a vault holds."""
    with Vault.open(path) as vault:
        return {
            f"/api/4.0{content_of(type_).item_path(row.id)}"
            for type_ in ("look", "explore")
            for row in vault.contents.rows(type_)
        }


def kill_and_finish(tmp_path, rounds, seed):
    """Kill `rounds` extractions and finish each: the requests that were sent twice, by round.

    A request is sent twice only if it was in flight at the kill, one per worker, or if its answer
    was not stored yet, `BATCHES_PER_WORKER` per worker.
    """
    dice = random.Random(seed)
    with SimulatedLookerProcess(counts=COUNTS, dashboard_bytes=1_500) as sim:
        whole = finish(sim.url, tmp_path / "whole.sqlite")
        assert whole == {"status": "done", "resumed": False}
        needed = content_requests(sim)
        assert len(set(needed)) == len(needed)
        repeated, resumed = [], 0
        for number in range(rounds):
            vault = tmp_path / f"killed-{number}.sqlite"
            sim.reset_log()
            run = start(sim.url, vault)
            moment = dice.randrange(1, int(0.9 * len(needed)))
            while run.poll() is None and sim.stats()["requests"] < moment:
                time.sleep(0.005)
            run.send_signal(signal.SIGKILL)
            run.communicate()
            stored, sent = stored_items(vault), len(content_requests(sim))
            done = finish(sim.url, vault)
            assert done["status"] == "done"
            resumed += done["resumed"]
            assert_vault_equals(sim.library, vault, TYPES, sample=50)
            requests = content_requests(sim)
            assert not stored.intersection(target.partition("?")[0] for target in requests[sent:])
            repeated.append(len(requests) - len(set(requests)))
    assert resumed >= rounds / 2, "the kills came too late to show anything"
    return repeated


@pytest.mark.long
def test_after_kills_at_random_moments_the_vault_equals_the_server(tmp_path):
    assert max(kill_and_finish(tmp_path, rounds=3, seed=1)) <= MOST_REPEATED


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_after_twenty_kills_the_vault_equals_the_server(tmp_path):
    assert max(kill_and_finish(tmp_path, rounds=20, seed=2)) <= MOST_REPEATED
