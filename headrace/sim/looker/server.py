"""The simulated Looker as a server: on a thread of this process, or as a child process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from headrace.sim.looker.faults import LookerFault, LookerSubject
from headrace.sim.looker.library import Library
from headrace.sim.looker.settings import Change, LookerSettings, parse_change
from headrace.sim.looker.simulation import LookerSimulation
from headrace.sim.process import ChildServer
from headrace.sim.serving import ThreadedServer


class SimulatedLooker(ThreadedServer[LookerFault]):
    """A simulated Looker on a thread of this process; a context manager.

    Args:
        clock: seconds, for tokens, limits, intervals and the log.
        settings: fields of `LookerSettings`.

    Attributes:
        library: the content, to look at and to change.

    Raises:
        SpecError: a setting that cannot be used.
        PortInUseError: on entry, when the port is taken.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, **settings: Any) -> None:
        self.settings = LookerSettings.of(**settings)
        self.simulation = LookerSimulation(self.settings, clock=clock)
        self.library = self.simulation.library
        super().__init__("simulated Looker", self.simulation, port=self.settings.port)

    def add_change(self, change: Change | str) -> None:
        """Have the content change after so many more listings and look-ups."""
        change = parse_change(change) if isinstance(change, str) else change
        after = change.after + self.simulation.read
        self.simulation.add_change(change.model_copy(update={"after": after}))

    def revoke_tokens(self) -> None:
        """Revoke every token."""
        self.simulation.tokens.revoke()


class SimulatedLookerProcess(ChildServer[LookerFault]):
    """A simulated Looker as a child process; a context manager.

    Args:
        cpu: pin the child to this core, where the system can.
        settings: fields of `LookerSettings`.

    Raises:
        SpecError: a setting that cannot be used.
        ServerStartError: on entry, when the child does not come up.
    """

    def __init__(self, *, cpu: int | None = None, **settings: Any) -> None:
        self.settings = LookerSettings.of(**settings)
        super().__init__(
            "looker",
            self.settings.model_dump_json(),
            fault_class=LookerFault,
            subject=LookerSubject,
            cpu=cpu,
        )
        #: What is generated; changes made over the wire are not in it.
        self.library = Library(self.settings)

    def edit(self, kind: str, item_id: str, **fields: Any) -> None:
        """Change fields of an item."""
        self._control("POST", "edit", {"kind": kind, "id": item_id, "fields": fields})

    def remove(self, kind: str, item_id: str) -> None:
        """Delete an item for good."""
        self._control("POST", "remove", {"kind": kind, "id": item_id})
