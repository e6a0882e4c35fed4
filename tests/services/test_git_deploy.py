"""One list with a pull step, a trigger and a time zone, for `prefect deploy` and `headrace up`."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.served import Server, served, wait_until

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]

FLOW = """
import os
from pathlib import Path
from headrace import __version__
from prefect import flow

@flow
def note(text: str = ""):
    (Path(os.environ["HEADRACE_HOME"]) / "noted").write_text(f"REVISION {text} {__version__}")
"""
PLAN = """
name: theirs
pull:
  - prefect.deployments.steps.git_clone: {{repository: "{url}", branch: main}}
deployments:
  - name: daily
    entrypoint: jobs/note.py:note
    parameters: {{text: first}}
    schedules: [{{slug: mornings, cron: "0 9 * * *", timezone: Europe/Berlin}}]
    triggers:
      - expect: [theirs.wanted]
        parameters: {{text: triggered}}
    work_pool: {{name: theirs}}
"""


def git(*words: str, folder: Path) -> None:
    who = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def commit(folder: Path, revision: str) -> None:
    (folder / "jobs/note.py").write_text(FLOW.replace("REVISION", revision))
    git("add", "-A", folder=folder)
    git("commit", "-m", revision, folder=folder)
    git("push", "origin", "main", folder=folder)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout whose origin is a bare repository."""
    folder = tmp_path_factory.mktemp("git")
    git("init", "--bare", "-b", "main", "origin.git", folder=folder)
    git("clone", "origin.git", "checkout", folder=folder)
    checkout = folder / "checkout"
    git("checkout", "-B", "main", folder=checkout)
    (checkout / "jobs").mkdir()
    (checkout / "prefect.yaml").write_text(PLAN.format(url=(folder / "origin.git").as_uri()))
    commit(checkout, "one")
    return checkout


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, checkout: Path) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("home"), "http://127.0.0.1:1") as started:
        started.up("--deployments", str(checkout / "prefect.yaml"))
        yield started


def noted(server: Server) -> str:
    return (server.home / "noted").read_text()


def test_up_takes_the_list_and_says_what_it_ignores(server: Server) -> None:
    assert server.answer["deployments"] == ["note/daily"]
    assert [line.partition(":")[0] for line in server.answer["ignored"]] == ["pull (all)"]
    off = {"note/mornings": False, "note/daily__automation_1": False}
    assert server.answer["schedules"] == off
    [schedule] = server.deployment("note/daily")["schedules"]
    assert schedule["schedule"]["timezone"] == "Europe/Berlin"


def test_a_trigger_starts_a_run_once_it_is_on_and_up_again_leaves_the_switch(
    server: Server, checkout: Path
) -> None:
    plan = ("--deployments", str(checkout / "prefect.yaml"))
    assert server.up(*plan, "--schedules")["schedules"] == dict.fromkeys(
        ("note/mornings", "note/daily__automation_1"), True
    )
    assert all(server.up(*plan)["schedules"].values())
    server.prefect("event", "emit", "theirs.wanted", "--resource-id", "theirs.thing")
    wait_until(lambda: (server.home / "noted").exists() and noted(server), 60, "the triggered run")
    assert noted(server).startswith("one triggered ")
    assert not any(server.up(*plan, "--no-schedules")["schedules"].values())


@pytest.mark.slow
def test_a_worker_runs_what_is_in_the_repository_now(server: Server, checkout: Path) -> None:
    server.prefect("work-pool", "create", "theirs", "--type", "process")
    deploying = Server(checkout, server.environment, server.api_url)
    deploying.prefect("--no-prompt", "deploy", "--all")
    with server.worker("theirs"):
        assert server.ended(server.start("note/daily"), 120)["state_type"] == "COMPLETED"
        assert noted(server).startswith("one first ")
        commit(checkout, "two")
        assert server.ended(server.start("note/daily"), 120)["state_type"] == "COMPLETED"
        assert noted(server).startswith("two first ")
