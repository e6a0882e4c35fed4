"""`headrace up` in a folder of its own, and the Prefect API asked as a browser asks it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from headrace.sim import SimulatedExchange

BIN = Path(sys.executable).parent
_FOREIGN = ("PREFECT_", "HEADRACE_", "AWS_")
FINAL = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}


class Refused(Exception):
    """The API said no; the first argument is the status, the second what it said."""


def clean_environment(**own: str) -> dict[str, str]:
    """This process's environment without what would change how the commands work."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(_FOREIGN)}
    return {**kept, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", **own}


@dataclass
class Server:
    """A Prefect API, and the commands that use it.

    Args:
        folder: where commands are typed; the state is in `home` below it.
        environment: of every command.
        api_url: once it is up.
        programs: the folder of the commands; those of this Python by default.
    """

    folder: Path
    environment: dict[str, str]
    api_url: str = ""
    answer: dict[str, Any] = field(default_factory=dict)
    programs: Path = BIN

    @property
    def home(self) -> Path:
        """`HEADRACE_HOME`."""
        return Path(self.environment["HEADRACE_HOME"])

    @property
    def ui_url(self) -> str:
        """Where a browser finds it."""
        return self.api_url.removesuffix("/api")

    def command(
        self, *words: str, program: str = "headrace", check: bool = True, timeout_s: float = 240
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder, with its end waited for."""
        done = subprocess.run(
            [str(self.programs / program), *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        assert "Traceback" not in done.stderr, done.stderr
        if check:
            assert done.returncode == 0, done.stderr + done.stdout
        return done

    def up(self, *options: str) -> dict[str, Any]:
        """`headrace up`; from then on commands of Prefect's own find the server, too."""
        self.answer = json.loads(self.command("up", "--json", *options).stdout)
        self.api_url = self.answer["api_url"]
        return self.answer

    def prefect(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command of Prefect's own against this server."""
        own = {**self.environment, "PREFECT_API_URL": self.api_url}
        return Server(self.folder, own).command(*words, program="prefect", **options)

    @contextmanager
    def worker(self, pool: str) -> Iterator[None]:
        """A worker of a work pool, in this folder."""
        worker = subprocess.Popen(
            [str(self.programs / "prefect"), "worker", "start", "--pool", pool],
            cwd=self.folder,
            env={**self.environment, "PREFECT_API_URL": self.api_url},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield
        finally:
            worker.terminate()
            try:
                worker.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request as the UI does.

        Raises:
            Refused: the API did not take it.
        """
        request = urllib.request.Request(
            f"{self.api_url}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        # A server whose SQLite file is busy answers 503; Prefect's own clients ask again, too.
        for attempt in range(1, 6):
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    content = answer.read()
                break
            except urllib.error.HTTPError as error:
                if error.code != 503 or attempt == 5:
                    raise Refused(error.code, error.read().decode()) from error
                time.sleep(attempt)
        return json.loads(content) if content else None

    def deployment(self, name: str) -> dict[str, Any]:
        """A deployment by its full name, `flow/deployment`."""
        found: dict[str, Any] = self.ask("GET", f"/deployments/name/{name}")
        return found

    def start(self, name: str, **parameters: Any) -> str:
        """Start a run as the form does; its id."""
        deployment = self.deployment(name)
        run = self.ask(
            "POST",
            f"/deployments/{deployment['id']}/create_flow_run",
            {
                "parameters": {**deployment["parameters"], **parameters},
                "state": {"type": "SCHEDULED"},
            },
        )
        return str(run["id"])

    def run(self, run_id: str) -> dict[str, Any]:
        """A flow run as it is now."""
        found: dict[str, Any] = self.ask("GET", f"/flow_runs/{run_id}")
        return found

    def ended(self, run_id: str, timeout_s: float = 120) -> dict[str, Any]:
        """A flow run once it has ended."""
        wait_until(lambda: self.run(run_id)["state_type"] in FINAL, timeout_s, f"run {run_id}")
        return self.run(run_id)

    def artifacts(self, run_id: str) -> dict[str, dict[str, Any]]:
        """What a run shows, by key."""
        found = self.ask(
            "POST", "/artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run_id]}}}
        )
        return {each["key"]: each for each in found}

    def task_runs(self, run_id: str) -> list[dict[str, Any]]:
        """The task runs of a run."""
        found: list[dict[str, Any]] = self.ask(
            "POST", "/task_runs/filter", {"flow_runs": {"id": {"any_": [run_id]}}, "limit": 200}
        )
        return found


@contextmanager
def served(
    folder: Path, sim: SimulatedExchange | str, *, programs: Path = BIN, **environment: str
) -> Iterator[Server]:
    """A folder in which `up` may be typed, with an exchange; whatever is up is down at the end."""
    own = {
        "HEADRACE_HOME": str(folder / "home"),
        "HEADRACE_COINBASE_URL": sim if isinstance(sim, str) else sim.url,
        "HEADRACE_RATE": "none",
        "PREFECT_HOME": str(folder / "prefect-home"),
        **environment,
    }
    server = Server(folder, clean_environment(**own), programs=programs)
    try:
        yield server
    finally:
        server.command("down")
        assert processes_of(server.home) == []


def processes_of(home: Path) -> list[psutil.Process]:
    """Everything that runs with this state folder, however it was started."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("HEADRACE_PROCESS_TOKEN") is None:
                continue
            mine = process.environ().get("HEADRACE_HOME") == str(home)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        if mine and process.status() != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def wait_until(true: Callable[[], Any], timeout_s: float, what: str = "it") -> Any:
    """Wait for something to be true, and return it."""
    deadline = time.monotonic() + timeout_s
    while not (answer := true()):
        assert time.monotonic() < deadline, f"{what}: not within {timeout_s:g} s"
        time.sleep(0.2)
    return answer
