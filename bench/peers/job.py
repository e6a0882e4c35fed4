"""What a job of the comparison is: peers, a clean run, and one that is killed and started again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bench.peers import measure
from headrace.cli.server import ManagedServer, managed_api

#: What one run came to: figures by name; `None` where a figure has no meaning.
Figures = dict[str, Any]


@dataclass(frozen=True)
class Peer:
    """One way to do a job.

    Attributes:
        name: in the table.
        how: how it is configured and why, in a sentence or two.
        environment: of its requirements; empty for this project's own.
        packages: whose versions the table shows.
        script: what was written around it; empty for a command.
        rounds: at most so many clean runs; 0 for as many as asked for.
        options: what tells it from another peer with the same script.
    """

    name: str
    how: str
    environment: str = ""
    packages: tuple[str, ...] = ()
    script: str = ""
    rounds: int = 0
    options: dict[str, Any] = field(default_factory=dict)


class CannotDo(Exception):
    """A peer that says itself that it cannot do the job; the message is what it said."""


class Job(Protocol):
    """A job, in one size."""

    #: What the job is, for the table.
    about: str
    peers: Sequence[Peer]

    def clean(self, peer: Peer, scratch: Path) -> Figures:
        """Do it once without disturbance.

        Raises:
            CannotDo: the peer refuses.
        """
        ...

    def killed(self, peer: Peer, scratch: Path, clean: Figures) -> Figures:
        """Do it, SIGKILL it half way through by what a clean run took, do it again."""
        ...


class Prefect:
    """The Prefect server that Headrace's commands use here, as after `headrace up`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    @contextmanager
    def watched(self, figures: Figures) -> Iterator[None]:
        """Note what the server took in a `with` block; what it had taken before does not count."""
        before = measure.cpu_s(self._pid)
        yield
        figures["server_cpu_s"] = round(measure.cpu_s(self._pid) - before, 2)
        figures["server_mb"] = measure.Family().look(self._pid) // 1024


@contextmanager
def prefect_server(home: Path) -> Iterator[Prefect]:
    """Keep a server up, and `HEADRACE_HOME` set, for a `with` block."""
    os.environ["HEADRACE_HOME"] = str(home)
    with managed_api(home):
        running = ManagedServer(home).running()
        if running is None:
            raise RuntimeError(f"no Prefect server runs for {home}, though one was started")
        yield Prefect(running.record.pid)


#: `headrace` as its entry point starts it.
HEADRACE = ("-c", "from headrace.cli.entry import main; main()")


def ended_well(code: int, said: str) -> str:
    """How a run ended, in a word or a line."""
    return "done" if code == 0 else f"exit code {code}: {said[:200]}"
