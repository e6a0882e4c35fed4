"""Jobs that ask a simulated server: a clean run, and one that is killed, by what the server saw."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from bench.peers.environments import PROJECT
from bench.peers.job import Figures, Peer, Prefect, ended_well
from bench.peers.measure import Program, Used
from headrace.sim.process import ChildServer

_LONGEST_S = 1800.0


class ServedJob(ABC):
    """A job whose server counts requests.

    Args:
        prefect: the server for our own commands.
    """

    def __init__(self, prefect: Prefect) -> None:
        self._prefect = prefect

    @abstractmethod
    def server(self) -> ChildServer[Any]:
        """A new server, to be entered."""

    @abstractmethod
    def command(self, peer: Peer, scratch: Path, server: Any) -> list[str]:
        """How a peer is started; what it stores lies in `scratch`."""

    @abstractmethod
    def lost(self, peer: Peer, scratch: Path, server: Any) -> Figures:
        """Rows `missing` and `repeated` in what a peer has stored."""

    def environment(self, server: Any) -> Mapping[str, str]:  # noqa: ARG002
        """Variables that peers need."""
        return {}

    def before_second(self, server: Any) -> None:  # noqa: B027 - in most jobs, nothing
        """What happens at the server between a kill and the second run."""

    def refused(self, peer: Peer, used: Used) -> None:  # noqa: B027 - most do not
        """Raise `CannotDo` if a peer said that it cannot do the job."""

    def clean(self, peer: Peer, scratch: Path) -> Figures:
        """See `Job`."""
        figures: Figures = {}
        with self.server() as server:
            used = self._run(peer, scratch, server, figures)
            self.refused(peer, used)
            stats = server.stats()
            return {
                **self.lost(peer, scratch, server),
                "requests": stats["requests"],
                "throttled": stats["throttled"],
                "wall_s": used.wall_s,
                "cpu_s": used.cpu_s,
                "peak_mb": used.peak_mb,
                **figures,
                "ended": ended_well(used.code, used.last_line),
            }

    def killed(self, peer: Peer, scratch: Path, clean: Figures) -> Figures:
        """Killed after half of the requests of a clean run; see `Job`."""
        with self.server() as server:
            first = self._run(peer, scratch, server, {}, kill_after=clean["requests"] // 2)
            asked = server.stats()["requests"]
            self.before_second(server)
            second = self._run(peer, scratch, server, {})
            stats = server.stats()
            return {
                **self.lost(peer, scratch, server),
                "requests_before": asked,
                "requests": stats["requests"],
                "throttled": stats["throttled"],
                "second_s": second.wall_s,
                "was_killed": first.code == -9,
                "ended": ended_well(second.code, second.last_line),
            }

    def _run(
        self,
        peer: Peer,
        scratch: Path,
        server: ChildServer[Any],
        figures: Figures,
        kill_after: float = float("inf"),
    ) -> Used:
        program = Program(
            self.command(peer, scratch, server),
            scratch / "log.txt",
            cwd=PROJECT,
            environment={**os.environ, **self.environment(server)},
        )
        ours = peer.name == "headrace"
        with self._prefect.watched(figures) if ours else nullcontext():
            return program.wait(_LONGEST_S, lambda: server.stats()["requests"] >= kill_after)
