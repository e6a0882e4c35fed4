"""`headrace up` serves the deployments of prefect.yaml: registered, started, kept alive, ended."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from headrace.cli.deployments.plan import default_plan_path, read_plan
from headrace.sim import SimulatedExchange
from tests.services_fixtures import free_port
from tests.support.served import Refused, Server, processes_of, served, wait_until

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]

PLAN = read_plan(default_plan_path())
TAPE = ("BTC-USD:26400", "ETH-USD:2500")


@pytest.fixture(scope="module")
def sim() -> Iterator[SimulatedExchange]:
    with SimulatedExchange(*TAPE, seed=4) as exchange:
        yield exchange


@pytest.fixture(scope="module")
def slow(sim: SimulatedExchange) -> Iterator[dict]:
    """Parameters of a run that takes half a minute, so that something can happen to it."""
    with SimulatedExchange("BTC-USD:26400", seed=4, latency="constant:s=1") as exchange:
        yield {
            "products": ["BTC-USD"],
            "base_url": exchange.url,
            "pages_per_chunk": 1,
            "chunk_concurrency": 1,
        }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, sim: SimulatedExchange) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("served"), sim) as started:
        started.up()
        yield started


def rows(lake: Path, product: str) -> list[tuple[object, ...]]:
    table = ds.dataset(lake / "raw/trades/exchange=coinbase" / f"product={product}").to_table()
    return sorted(tuple(row.values()) for row in table.to_pylist())


def parts(lake: Path) -> list[str]:
    return sorted(str(path.relative_to(lake)) for path in lake.rglob("*.parquet"))


def full_name(server: Server, planned) -> str:
    [found] = [
        name
        for name in server.answer["deployments"]
        if name.endswith(f"/{planned.name}")
        and server.deployment(name)["entrypoint"] == f"{planned.module}.{planned.function}"
    ]
    return found


@pytest.mark.parametrize("planned", PLAN.deployments, ids=lambda planned: planned.entrypoint)
def test_what_the_server_has_is_what_the_file_says(server: Server, planned) -> None:
    deployment = server.deployment(full_name(server, planned))
    assert deployment["description"] == planned.description
    assert (deployment["version"], deployment["paused"]) == (planned.version, False)
    assert sorted(deployment["tags"]) == sorted(planned.tags)
    assert deployment["parameters"] == planned.parameters
    limit = planned.concurrency_limit
    assert deployment["global_concurrency_limit"]["limit"] == limit.limit
    assert deployment["concurrency_options"] == limit.model_dump(exclude={"limit"})
    assert deployment["enforce_parameter_schema"] is True
    assert all(
        field["description"]
        for field in deployment["parameter_openapi_schema"]["properties"].values()
    )
    assert [
        (each["slug"], each["schedule"].get("cron"), each["schedule"]["timezone"], each["active"])
        for each in deployment["schedules"]
    ] == [(each.key, each.cron, each.timezone, False) for each in planned.schedules]


def test_nothing_runs_by_itself_until_schedules_are_switched_on(server: Server) -> None:
    off = dict.fromkeys(server.up()["schedules"], False)
    assert server.answer["schedules"] == off
    wanted = {
        f"{each.shown_flow}/{schedule.key}": schedule.active
        for each in PLAN.deployments
        for schedule in each.schedules
    }
    try:
        assert server.up("--schedules")["schedules"] == wanted
        assert off.keys() == wanted.keys()
        assert off.keys() <= set(server.answer["deployments"])
        assert server.up()["schedules"] == wanted, "switches stay as they are"
        said = server.command("up").stdout
        assert "Schedules on: ingest/every-5-minutes" in said
        shown = json.loads(server.command("status", "--json").stdout)["schedules"]
        on = {name.partition("/")[0] for name, active in wanted.items() if active}
        assert {each["deployment"].partition("/")[0] for each in shown} == on
    finally:
        assert server.up("--no-schedules")["schedules"] == off
    assert "All schedules are off" in server.command("up").stdout


def test_the_server_has_the_blocks_and_the_alarms(server: Server) -> None:
    listed = server.command("alarms", "list", "--json").stdout
    assert {(each["key"], each["enabled"]) for each in json.loads(listed)["alarms"]} == {
        ("breaker-open", False),
        ("chain-broken", False),
        ("check-failed", False),
        ("content-broken", False),
        ("data-old", False),
        ("extraction-incomplete", False),
        ("gap-found", False),
        ("not-served", False),
        ("not-started", False),
        ("run-failed", False),
        ("run-partial", False),
        ("throttled", False),
    }
    for slug in ("checkpoint", "exchange", "lake", "quota"):
        kind = server.ask("GET", f"/block_types/slug/headrace-{slug}")
        assert kind["description"]
        assert "```python" in kind["code_example"]


@pytest.mark.slow
def test_a_backfill_from_the_api_is_the_command_with_the_same_parameters(
    server: Server, sim: SimulatedExchange
) -> None:
    by_command, by_api = server.folder / "by-command", server.folder / "by-api"
    options = {"to_id": 12_345, "workers": 2, "chunk_concurrency": 3, "pages_per_chunk": 4}
    words = [
        word
        for name, value in options.items()
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    summary = json.loads(
        server.command("backfill", "BTC-USD", "--json", "--lake", "by-command", *words).stdout
    )
    parameters = [word for name, value in options.items() for word in ("-p", f"{name}={value}")]
    started = server.prefect(
        "deployment", "run", "backfill/on-demand", *parameters, "-p", "lake=by-api", "--watch"
    )
    assert "Completed" in started.stdout, started.stdout
    assert parts(by_api) == parts(by_command)
    assert rows(by_api, "BTC-USD") == rows(by_command, "BTC-USD")
    [run] = server.ask(
        "POST", "/flow_runs/filter", {"deployments": {"name": {"any_": ["on-demand"]}}, "limit": 1}
    )
    [row] = json.loads(server.artifacts(run["id"])["headrace-coverage"]["data"])
    [receipt] = summary["products"]
    assert (row["watermark"], row["trades stored"], row["new trades"]) == (
        receipt["watermark"],
        receipt["rows"],
        receipt["new_rows"],
    )
    assert receipt["watermark"] == 13_000, "whole pages"


def test_what_a_run_shows(server: Server) -> None:
    run_id = server.start("backfill/on-demand", products=["ETH-USD"], lake="shown")
    run = server.ended(run_id)
    assert run["state_type"] == "COMPLETED", run["state"]
    shown = server.artifacts(run_id)
    assert shown["headrace-progress"]["data"] == 100.0
    assert "ETH-USD: 3/3 pages" in shown["headrace-progress"]["description"]
    text = shown["headrace-summary"]["data"]

    def product_tasks() -> list[dict]:
        return [task for task in server.task_runs(run_id) if task["name"] == "ETH-USD"]

    # The server records task runs from events, a moment after they have ended.
    [product] = wait_until(product_tasks, 30, "the task run of ETH-USD")
    assert f"/task-run/{product['id']})" in text
    assert f"/flow-run/{run_id})" in text
    assert text.count(f"]({server.ui_url}/") == 2
    assert f"{server.folder}/shown/raw/trades/exchange=coinbase/product=ETH-USD" in text
    assert "docs/lake.md" in text
    wait_until(lambda: "headrace.product.up-to-date" in events_of(server, run_id), 20, "the events")
    assert "headrace.product.committed" in events_of(server, run_id)


def events_of(server: Server, run_id: str) -> list[str]:
    page = server.ask(
        "POST",
        "/events/filter",
        {
            "filter": {
                "event": {"prefix": ["headrace."]},
                "related": {"id": [f"prefect.flow-run.{run_id}"]},
            }
        },
    )
    return [event["event"] for event in page["events"]]


@pytest.mark.parametrize(
    ("name", "wrong"), [("workers", 99), ("since", "yesterday"), ("rate", "fast")]
)
def test_a_wrong_value_makes_no_run(server: Server, name: str, wrong: object) -> None:
    with pytest.raises(Refused) as refusal:
        server.start("backfill/on-demand", **{name: wrong})
    status, said = refusal.value.args
    assert status == 409
    assert name in said


@pytest.mark.slow
def test_another_start_is_cancelled_while_one_is_at_work(server: Server, slow: dict) -> None:
    first = server.start("backfill/on-demand", **slow, lake="slow")
    wait_until(lambda: server.run(first)["state_type"] == "RUNNING", 60, "the first run")
    second = server.ended(server.start("backfill/on-demand", **slow, lake="slow"), 30)
    assert (second["state_type"], second["state"]["message"]) == (
        "CANCELLED",
        "Deployment concurrency limit reached.",
    )
    server.ask("POST", f"/flow_runs/{first}/set_state", {"state": {"type": "CANCELLING"}})
    assert server.ended(first, 60)["state_type"] == "CANCELLED"
    third = server.ended(server.start("backfill/on-demand", **{**slow, "chunk_concurrency": 9}))
    assert third["state_type"] == "COMPLETED"


def test_a_run_that_is_retried_in_the_ui_reports_all_its_attempts(
    server: Server, sim: SimulatedExchange
) -> None:
    sim.add_fault("respond,status=404,product=ETH-USD,calls=1")
    run_id = server.start("backfill/on-demand", products=["BTC-USD", "ETH-USD"], lake="retried")
    first = server.ended(run_id)
    assert (first["state_type"], first["state"]["name"]) == ("FAILED", "Partial")
    assert "26,400 new trades" in first["state"]["message"]

    again = {"state": {"type": "SCHEDULED", "name": "AwaitingRetry"}}
    server.ask("POST", f"/flow_runs/{run_id}/set_state", again)
    wait_until(lambda: server.run(run_id)["state_type"] == "COMPLETED", 120, "the second attempt")
    second = server.run(run_id)
    assert second["run_count"] == 2
    assert "28,900 new trades" in second["state"]["message"]
    assert len(rows(server.folder / "retried", "ETH-USD")) == sim.newest_id("ETH-USD")


def services_of(server: Server) -> set[int]:
    """The processes that `up` keeps; a run that a schedule has just begun is none of them."""
    return {
        each.pid
        for each in processes_of(server.home)
        if any(word.startswith("headrace.cli.") for word in each.cmdline())
    }


@pytest.mark.slow
def test_up_again_changes_nothing_and_minds_a_switch(server: Server) -> None:
    before = services_of(server)
    deployment = server.deployment("ingest/every-5-minutes")
    [schedule] = deployment["schedules"]
    path = f"/deployments/{deployment['id']}/schedules/{schedule['id']}"
    server.ask("PATCH", path, {"active": True})
    server.up()
    assert services_of(server) == before
    server.command("down")
    server.up()
    [schedule] = server.deployment("ingest/every-5-minutes")["schedules"]
    assert (schedule["active"], schedule["slug"]) == (True, "every-5-minutes")
    server.up("--no-schedules")


@pytest.mark.slow
def test_a_killed_runner_is_restarted_and_its_run_is_concluded(
    server: Server, sim: SimulatedExchange, slow: dict
) -> None:
    run_id = server.start("backfill/on-demand", **slow, lake="killed")
    wait_until(lambda: server.run(run_id)["state_type"] == "RUNNING", 60, "the run")
    [runner] = [
        each
        for each in processes_of(server.home)
        if "headrace.cli.deployments.runner" in each.cmdline()
    ]
    os.kill(runner.pid, signal.SIGKILL)
    ended = server.ended(run_id, 90)
    assert ended["state_type"] in ("CRASHED", "CANCELLED")
    server.up()
    assert "restarted 1 time," in server.command("status").stdout
    again = server.start("backfill/on-demand", **{**slow, "chunk_concurrency": 9}, lake="killed")
    assert server.ended(again)["state_type"] == "COMPLETED"
    assert len(rows(server.folder / "killed", "BTC-USD")) == sim.newest_id("BTC-USD")


@pytest.mark.slow
def test_a_run_that_gets_sigterm_keeps_what_is_complete(
    server: Server, sim: SimulatedExchange, slow: dict
) -> None:
    lake = server.folder / "ended"
    run_id = server.start("backfill/on-demand", **slow, lake="ended")
    wait_until(lambda: len(parts(lake)) >= 4, 90, "the first parts")
    [process] = [
        each
        for each in processes_of(server.home)
        if each.environ().get("PREFECT__FLOW_RUN_ID") == run_id
    ]
    process.send_signal(signal.SIGTERM)
    process.wait(10)
    assert server.ended(run_id, 60)["state_type"] in ("CANCELLED", "CRASHED")
    kept = parts(lake)
    assert len(kept) >= 4
    assert [path for path in lake.rglob("*.tmp") if path.is_file()] == []

    again = server.start("backfill/on-demand", **{**slow, "chunk_concurrency": 9}, lake="ended")
    assert server.ended(again)["state_type"] == "COMPLETED"
    assert len(rows(lake, "BTC-USD")) == sim.newest_id("BTC-USD")


def test_a_run_that_fails_for_a_known_reason_is_one_line_in_the_log(server: Server) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    run = server.ended(server.start("ingest/every-5-minutes", lake="none", base_url=nowhere))
    message = run["state"]["message"]
    assert (run["state_type"], message.startswith(f"no answer from {nowhere}")) == ("FAILED", True)
    log = server.home / "prefect/logs/deployments.log"
    wait_until(lambda: message in log.read_text(), 30, "the line")
    name = f"Flow run '{run['name']}'"
    assert [line for line in log.read_text().splitlines() if name in line][1:] == []
    after = log.read_text().partition(message)[2]
    assert "Traceback" not in after


@pytest.mark.slow
def test_a_killed_supervisor_leaves_nothing_and_up_mends_it(server: Server) -> None:
    [supervisor] = [
        each
        for each in processes_of(server.home)
        if "headrace.cli.deployments.supervisor" in each.cmdline()
    ]
    os.kill(supervisor.pid, signal.SIGKILL)
    wait_until(lambda: len(processes_of(server.home)) == 1, 40, "the runner's end")
    assert "headrace up" in server.command("status").stdout
    server.up()
    run = server.ended(server.start("ingest/every-5-minutes", lake="mended"))
    assert run["state_type"] == "COMPLETED", run["state"]
