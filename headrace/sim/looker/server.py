"""The simulated Looker as a server: on a thread of this process, or as a child process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from headrace.sim.arrivals import Arrival
from headrace.sim.child import PREFIX, ChildServer
from headrace.sim.http import Reply, Request
from headrace.sim.listener import Listener
from headrace.sim.looker.changes import Change, parse_change
from headrace.sim.looker.control import LookerControl
from headrace.sim.looker.faults import LookerFault, LookerSubject, parse_looker_fault
from headrace.sim.looker.library import Library
from headrace.sim.looker.settings import LookerSettings
from headrace.sim.looker.simulation import LookerSimulation
from headrace.sim.threaded import ThreadedServer


def looker_listener(simulation: LookerSimulation) -> Listener:
    """The port of a simulation, with its control endpoint.

    Raises:
        PortInUseError: the port of its settings is taken.
    """
    control = LookerControl(simulation)

    async def handle(request: Request) -> Reply:
        if request.path.startswith(PREFIX):
            return control.answer(request)
        return await simulation.handle(request)

    return Listener(
        handle,
        clock=simulation.clock,
        shut=simulation.refuses_connections,
        port=simulation.settings.port,
    )


class SimulatedLooker(ThreadedServer):
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
        super().__init__("simulated Looker")
        self.settings = LookerSettings.of(**settings)
        self.simulation = LookerSimulation(self.settings, clock=clock)
        self.library = self.simulation.library

    def _make_listener(self) -> Listener:
        return looker_listener(self.simulation)

    def add_fault(self, fault: LookerFault | str) -> int:
        """Put a fault in force, from the next request on; returns its number."""
        fault = parse_looker_fault(fault) if isinstance(fault, str) else fault
        number = self.simulation.add_fault(fault)
        self._mind_door()
        return number

    def remove_fault(self, number: int) -> None:
        """Lift one fault."""
        self.simulation.remove_fault(number)
        self._mind_door()

    def clear_faults(self) -> None:
        """Lift every fault."""
        self.simulation.clear_faults()
        self._mind_door()

    def add_change(self, change: Change | str) -> None:
        """Have the content change after so many more listings and look-ups."""
        change = parse_change(change) if isinstance(change, str) else change
        after = change.after + self.simulation.read
        self.simulation.add_change(change.model_copy(update={"after": after}))

    def revoke_tokens(self) -> None:
        """Take every token back."""
        self.simulation.desk.revoke()

    def stats(self, windows_s: Sequence[float] = (1.0,)) -> dict[str, Any]:
        """Counts; see `LookerSimulation.stats`."""
        return self.simulation.stats(windows_s)

    def arrivals(self) -> list[Arrival]:
        """The requests that arrived, oldest first."""
        return self.simulation.arrivals()

    def reset_log(self) -> None:
        """Forget the requests so far."""
        self.simulation.reset_log()


class SimulatedLookerProcess(ChildServer):
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
        super().__init__("headrace.sim.looker", self.settings.model_dump_json(), cpu=cpu)
        #: What is generated; changes made over the wire are not in it.
        self.library = Library(self.settings)

    def add_fault(self, fault: LookerFault | str) -> int:
        """Put a fault in force; returns its number."""
        fault = parse_looker_fault(fault) if isinstance(fault, str) else fault
        return int(self._control("POST", "faults", fault.model_dump(mode="json"))["number"])

    def clear_faults(self) -> None:
        """Lift every fault."""
        self._control("DELETE", "faults")

    def edit(self, kind: str, item_id: str, **fields: Any) -> None:
        """Change fields of an item."""
        self._control("POST", "edit", {"kind": kind, "id": item_id, "fields": fields})

    def remove(self, kind: str, item_id: str) -> None:
        """Delete an item for good."""
        self._control("POST", "remove", {"kind": kind, "id": item_id})

    def stats(self, windows_s: Sequence[float] = (1.0,)) -> dict[str, Any]:
        """Counts; see `LookerSimulation.stats`."""
        windows = ",".join(str(window) for window in windows_s)
        stats: dict[str, Any] = self._control("GET", f"stats?windows={windows}")
        return stats

    def arrivals(self) -> list[Arrival]:
        """The requests that arrived, oldest first; their subjects are `LookerSubject`s."""
        return [
            Arrival(**{**arrival, "subject": LookerSubject(**arrival["subject"])})
            for arrival in self._control("GET", "arrivals")
        ]

    def reset_log(self) -> None:
        """Forget the requests so far."""
        self._control("POST", "reset", {})
