"""Serve the deployments: `python -m headrace.cli.deployments.runner HOME PLAN FOLDER`.

Imports Prefect and the flows while the server still starts, registers everything, then starts what
is due, each run as a process of its own. The plan is looked at every few seconds: a change is
registered without a restart.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from headrace.cli.deployments.plan import Plan, read_plan
from headrace.cli.server.address import is_healthy
from headrace.cli.server.managed import START_TIMEOUT_S
from headrace.cli.server.process import TOKEN_VARIABLE
from headrace.cli.server.state import ServingNote, StateFolder, read_note, write_note
from headrace.errors import HeadraceError
from headrace.project import packages_of_others, put_project_first

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient
    from prefect.runner import Runner

log = logging.getLogger(__name__)

#: How often the server is asked what is due (Prefect's default: 10 s).
POLL_S = 5.0
_PLAN_LOOK_S = 2.0
#: How often leases are looked at whose process is gone.
_LEASES_LOOK_S = 30.0


class Serving:
    """What one runner serves, and its note about that.

    Args:
        folder: the state folder.
        token: what this process is known by.
        plan_path: the list of deployments.
        work_folder: where runs work.
    """

    def __init__(self, folder: StateFolder, token: str, plan_path: Path, work_folder: Path) -> None:
        self.plan_path = plan_path
        self._folder = folder
        before = read_note(folder, token)
        self._note = ServingNote(
            token=token,
            plan=str(plan_path),
            folder=str(work_folder),
            restarts=before.restarts if before else 0,
        )
        self._served: dict[UUID, str] = {}

    def report(self, *, problem: str = "") -> None:
        """Write the note: what is served, or why nothing is."""
        served = sorted(self._served.values())
        note = msgspec.structs.replace(self._note, deployments=served, problem=problem)
        write_note(self._folder, note)

    async def register(self, client: PrefectClient, runner: Runner, plan: Plan) -> None:
        """Bring the server to what the plan says, and have the runner serve that."""
        from headrace.cli.deployments.registering import (
            register_deployments,
            withdraw,
            without_missing_extras,
        )

        plan, left_out = without_missing_extras(plan)
        for line in left_out:
            _say(line)
        served = await register_deployments(client, plan)
        await withdraw(client, self._served.keys() - served.keys())
        for deployment_id, name in served.items():
            runner._deployment_registry.register_deployment(deployment_id, name)
        self._served = served
        self.report()

    async def follow_plan(self, client: PrefectClient, runner: Runner) -> None:
        """Register the plan again whenever its file has changed."""
        seen = _changed_at(self.plan_path)
        while True:
            await asyncio.sleep(_PLAN_LOOK_S)
            now = _changed_at(self.plan_path)
            if now == seen:
                continue
            seen = now
            try:
                await self.register(client, runner, read_plan(self.plan_path))
            except HeadraceError as error:
                # What was served before still is.
                _say(str(error))

    @property
    def ids(self) -> list[UUID]:
        """Of the deployments that are served."""
        return list(self._served)


async def serve(serving: Serving, port: int) -> None:
    """Register everything once the server answers, then start what is due until a signal.

    Raises:
        HeadraceError: the plan cannot be used.
    """
    plan = read_plan(serving.plan_path)
    from prefect.client.orchestration import get_client
    from prefect.runner import Runner

    from headrace.cli.deployments.registering import conclude_dead_runs, without_missing_extras

    # A flow that cannot be imported is said before the server is waited for.
    without_missing_extras(plan)
    await _wait_for_server(port)
    # Each deployment has its own limit; one for all would let a long backfill hold up an ingest.
    runner = Runner(name="headrace", limit=None, pause_on_shutdown=False, query_seconds=POLL_S)
    async with get_client() as client:
        await _furnish(client, serving.plan_path.parent)
        await serving.register(client, runner, plan)
        for run_id in await conclude_dead_runs(client, serving.ids):
            _say(f"run {run_id} was left behind by a runner that is gone")
        beside = [
            asyncio.create_task(serving.follow_plan(client, runner)),
            asyncio.create_task(_conclude_killed_runs()),
        ]
        try:
            await runner.start()
        finally:
            for each in beside:
                each.cancel()


async def _conclude_killed_runs() -> None:
    """Call runs of commands crashed whose process was killed, as far as leases prove it."""
    from headrace.leases import open_leases
    from headrace.prefect_api.dead_runs import conclude_runs_of_the_dead
    from headrace.settings import load_settings

    while True:
        try:
            leases = open_leases(load_settings().lease_location)
            # Between machines a look at all of them costs requests; the next run looks at its own.
            if leases.one_machine:
                for run_id in await asyncio.to_thread(conclude_runs_of_the_dead, leases):
                    _say(f"the process of run {run_id} is gone")
        except HeadraceError as error:
            # Each run that needs the leases says so, and what to do about it.
            log.info("leases cannot be looked at: %s", error)
        await asyncio.sleep(_LEASES_LOOK_S)


async def _furnish(client: PrefectClient, plan_folder: Path) -> None:
    """Give the server the blocks and the alarms, from a process without the names of the user's own
    packages where the plan's folder has some.

    Raises:
        HeadraceError: that process failed.
    """
    if not packages_of_others(plan_folder):
        from headrace.cli.deployments.blocks_and_alarms import furnish

        await furnish(client)
        return
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "headrace.cli.deployments.blocks_and_alarms"
    )
    if code := await child.wait():
        raise HeadraceError(f"the blocks and the alarms are not registered (exit code {code})")


async def _wait_for_server(port: int) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not is_healthy(port):
        if time.monotonic() > deadline:
            raise HeadraceError(f"the Prefect server on port {port} does not answer")
        await asyncio.sleep(0.05)


def end_with_parent(parent: int) -> None:
    """End this process when the supervisor is gone: its runs would be unsupervised."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True, name="parent").start()


def _changed_at(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def _say(line: str) -> None:
    sys.stderr.write(f"runner: {line}\n")
    sys.stderr.flush()


def main(home: str, plan: str, folder: str) -> None:
    """Serve until a signal; a problem that a person has to solve becomes a note and an exit."""
    parent = os.getppid()
    os.chdir(folder)
    if not packages_of_others(Path(plan).parent):
        put_project_first()
    state = StateFolder(Path(home))
    port = urlsplit(os.environ["PREFECT_API_URL"]).port
    serving = Serving(state, os.environ[TOKEN_VARIABLE], Path(plan), Path(folder))
    try:
        if port is None:
            raise HeadraceError("PREFECT_API_URL names no port")
        end_with_parent(parent)
        asyncio.run(serve(serving, port))
    except HeadraceError as error:
        serving.report(problem=str(error))
        _say(str(error))
        sys.exit(1)
    except Exception as error:
        lines = str(error).splitlines() or [""]
        serving.report(problem=f"{type(error).__name__}: {lines[0][:300]}")
        raise


if __name__ == "__main__":
    main(*sys.argv[1:])
