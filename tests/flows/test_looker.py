"""The flow `looker` on a Prefect server: its DAG, its checkpoints, its endings, its parameters."""

from __future__ import annotations

import inspect
import json
import signal
import subprocess
import sys
import typing
from importlib import import_module

import pytest
from support.looker import SECRET, assert_vault_equals
from support.metrics import samples
from support.processes import ended, wait_until
from support.pulls import Watcher

from blocks.looker import BlockTypeCheckpoints, Looker, LookerCheckpoint
from headrace.cli.looker.extract import extract as command
from headrace.errors import ConfigurationError
from headrace.leases import LeaseStatus, hold, open_leases
from headrace.looker.client import LoginRefused
from headrace.looker.exceptions import CheckpointUnusable
from headrace.looker.extract.report import ExtractSummary
from headrace.looker.extract.request import vault_lease
from headrace.looker.vault import Status as Ended
from headrace.looker.vault import Vault
from headrace.run.report import Status
from headrace.settings import load_settings
from headrace.sim.looker import SimulatedLooker
from headrace.wire.exceptions import ConnectionFailed

pytestmark = pytest.mark.flows


@pytest.fixture
def vault(tmp_path):
    return tmp_path / "looker.sqlite"


@pytest.fixture
def sim(monkeypatch):
    with SimulatedLooker(counts={"dashboard": 420, "look": 15}) as running:
        monkeypatch.setenv("LOOKERSDK_BASE_URL", running.url)
        monkeypatch.setenv("LOOKERSDK_CLIENT_ID", "headrace")
        monkeypatch.setenv("LOOKERSDK_CLIENT_SECRET", SECRET)
        yield running


def run(vault, **parameters) -> ExtractSummary:
    """Run the flow as a deployment does and return what it did; its errors are raised."""
    from tasks.kernel import observing

    watcher = Watcher()
    parameters = {"rate": "none", "vault": str(vault), "workers": 4, **parameters}
    with observing(watcher):
        flow = import_module("flows.looker").looker
        state = flow(**parameters, return_state=True)
    if watcher.summary is None:
        state.result(raise_on_failure=True)
        raise AssertionError("the run ended without a summary")
    run.state = state
    return watcher.summary


def test_everything_comes_and_each_type_has_a_checkpoint(sim, vault):
    summary = run(vault)
    assert summary.status is Status.DONE
    assert run.state.is_completed()
    assert_vault_equals(sim.library, vault)
    assert summary.costs.logins == 1
    assert summary.requests == sim.stats()["requests"] - 1  # the logout comes after it
    checkpoint = BlockTypeCheckpoints(str(vault.resolve())).load("dashboard")
    assert checkpoint.items == 423
    assert checkpoint.complete
    assert checkpoint.session == summary.session
    assert checkpoint.run_id == summary.run
    assert SECRET not in str(summary.as_json())


def test_failed_ranges_leave_it_partial_and_the_next_run_goes_on(sim, vault):
    sim.add_fault("error,status=500,ask=list,type=dashboard,offset=200")
    summary = run(vault, types=["dashboard"])
    assert summary.status is Status.PARTIAL
    assert run.state.name == "Partial"
    [receipt] = summary.types
    assert receipt.missing == ("dashboards:200+101",)
    sim.clear_faults()
    again = run(vault, types=["dashboard"])
    assert again.resumed
    assert again.session == summary.session
    assert again.status is Status.DONE
    assert_vault_equals(sim.library, vault, ["dashboard"])
    with Vault.open(vault) as held:
        assert held.sessions.get(again.session).status is Ended.DONE


def test_a_looker_that_goes_away_ends_the_run_with_one_message_and_the_vault_keeps_what_came(
    sim, vault, monkeypatch
):
    monkeypatch.setenv("HEADRACE_BREAKER_COOLDOWN_S", "0.2")
    sim.add_fault("html,status=404,from_call=4")
    types = ["dashboard", "look", "board"]
    summary = run(vault, types=types, batch_size=20, outage_limit_s=1)
    assert run.state.name == "Partial"
    assert not summary.stopped
    assert "longer than the outage limit of 1 s" in summary.outage
    assert [line for line in summary.remarks() if "outage limit" in line] == [summary.outage]
    assert {r.error for r in summary.types if r.status is not Status.DONE} == {summary.outage}
    with Vault.open(vault) as held:
        assert held.sessions.get(summary.session).status is Ended.INTERRUPTED
    sim.clear_faults()
    again = run(vault, types=types, batch_size=20)
    assert again.session == summary.session
    assert again.status is Status.DONE
    assert again.outage == ""
    assert_vault_equals(sim.library, vault, types)


def test_who_finds_another_run_at_the_vault_ends_at_once(sim, vault):
    leases = open_leases(load_settings().lease_location)
    with hold(leases, vault_lease(vault), run_id="other"):
        summary = run(vault)
    assert summary.status is Status.RUNNING_ELSEWHERE
    assert run.state.name == "AlreadyRunning"
    assert not vault.exists()
    assert sim.stats()["requests"] == 0


def test_the_command_finds_out_before_prefect_is_troubled(sim, vault):
    leases = open_leases(load_settings().lease_location)
    arguments = ("looker", "extract", "-t", "look", "--vault", str(vault), "--json")
    with hold(leases, vault_lease(vault), run_id="other"):
        done = subprocess.run(
            [sys.executable, "-m", "headrace.cli.main", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == 3, done.stderr
    assert "Prefect" not in done.stderr
    summary = json.loads(done.stdout)
    assert (summary["run"], summary["status"]) == (None, "running_elsewhere")
    [receipt] = summary["types"]
    assert "run other" in receipt["error"]
    assert not vault.exists()
    assert sim.stats()["requests"] == 0


def test_a_signal_while_prefect_is_loaded_gives_the_vault_back(sim, vault):
    leases, name = open_leases(load_settings().lease_location), vault_lease(vault)
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace.cli.main", "looker", "extract", "--vault", str(vault)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: leases.state(name).status is LeaseStatus.HELD, process)
    process.send_signal(signal.SIGTERM)
    assert ended(process).code == 130
    assert leases.state(name).status is LeaseStatus.FREE


def test_what_cannot_be_reached_or_is_refused_is_said_before_anything_is_made(
    sim, vault, monkeypatch
):
    monkeypatch.setenv("LOOKERSDK_CLIENT_SECRET", "not-the-secret")
    with pytest.raises(LoginRefused) as refused:
        run(vault)
    assert "not-the-secret" not in str(refused.value)
    with pytest.raises(ConnectionFailed, match="no answer from"):
        run(vault, base_url="http://127.0.0.1:9")
    with pytest.raises(ConfigurationError, match="no content type"):
        run(vault, types=["dashes"])
    monkeypatch.setenv("LOOKERSDK_CLIENT_SECRET", SECRET)
    with pytest.raises(ConfigurationError, match="no folder 'nowhere'"):
        run(vault, folder_ids=["nowhere"])
    assert not vault.exists()


def test_a_saved_block_names_the_looker(sim, vault, monkeypatch):
    monkeypatch.delenv("LOOKERSDK_CLIENT_SECRET")
    Looker(base_url=sim.url, client_id="headrace", client_secret=SECRET).save(
        "company", overwrite=True
    )
    summary = run(vault, types=["group"], base_url="block:company")
    assert summary.status is Status.DONE
    assert_vault_equals(sim.library, vault, ["group"])


def test_both_rates_hold_at_once(sim, vault):
    summary = run(vault, types=["look"], rate="10/s,60/m")
    assert summary.status is Status.DONE
    windows = sim.stats((1.0, 60.0))["most_in_window"]
    assert windows["1.0"] <= 10
    assert windows["60.0"] <= 60


def test_a_checkpoint_that_is_newer_or_another_s_is_refused(sim, vault):
    run(vault, types=["group"])
    name = str(vault.resolve())
    checkpoints = BlockTypeCheckpoints(name)
    stored = checkpoints.load("group")
    block = LookerCheckpoint.load(checkpoints._name("group"))
    for change in ({"schema_version": 99}, {"vault": "another"}, {"items": -1}):
        block.checkpoint = {**stored.model_dump(mode="json"), **change}
        block.save(checkpoints._name("group"), overwrite=True)
        with pytest.raises(CheckpointUnusable):
            checkpoints.load("group")
    assert run(vault, types=["group"]).status is Status.DONE  # the vault is what counts
    assert checkpoints.load("group").items == 4


def test_every_option_of_the_command_is_a_parameter_of_the_flow_and_the_other_way_round():
    flow = import_module("flows.looker").looker
    parameters = dict(inspect.signature(flow.fn, eval_str=True).parameters)
    options = dict(inspect.signature(command, eval_str=True).parameters)
    assert options.pop("as_json").default is False
    assert set(options) == set(parameters)
    for name, parameter in parameters.items():
        if name != "rate":  # repeatable, and joined by commas
            assert options[name].default == parameter.default, name
            kinds = [typing.get_args(p.annotation)[:1] for p in (options[name], parameter)]
            assert kinds[0] == (kinds[1] or (parameter.annotation,)), name
    helps = flow.parameters.properties
    assert all(helps[name].get("description") for name in parameters)


def test_metrics_of_an_extraction_are_published_by_content_type(sim, vault, tmp_path, monkeypatch):
    path = tmp_path / "headrace.prom"
    monkeypatch.setenv("HEADRACE_METRICS", f"prometheus:{path}")
    sim.add_fault("respond,status=429,calls=3")
    summary = run(vault, types=["dashboard", "look"])
    metrics = samples(path)

    asked = sum(value for (name, _), value in metrics.items() if name == "headrace_requests_total")
    assert asked == summary.requests
    assert metrics["headrace_rows_total", "dashboard"] == 423
    assert metrics["headrace_rows_total", "look"] == 15
    assert metrics["headrace_missing_ids", "dashboard"] == 0
    assert metrics["headrace_throttled_total", ""] == summary.costs.throttled > 0
    assert metrics["headrace_response_seconds_count", ""] >= summary.requests
    assert metrics["headrace_runs_total", "looker"] == 1
