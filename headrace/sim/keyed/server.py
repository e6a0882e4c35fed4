"""The simulated keyed exchange as a server: on a thread of this process, or as a child process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from headrace.sim.keyed.settings import KeyedFault, KeyedSettings, KeyedSubject
from headrace.sim.keyed.simulation import KeyCounts, KeyedSimulation
from headrace.sim.process import ChildServer
from headrace.sim.serving import ThreadedServer


class SimulatedKeyedExchange(ThreadedServer[KeyedFault]):
    """A simulated keyed exchange on a thread of this process; a context manager.

    Args:
        clock: seconds, for windows, intervals and the log.
        settings: fields of `KeyedSettings`.

    Raises:
        SpecError: a setting that cannot be used.
        PortInUseError: on entry, when the port is taken.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, **settings: Any) -> None:
        self.settings = KeyedSettings.of(**settings)
        self.simulation = KeyedSimulation(self.settings, clock=clock)
        super().__init__("simulated keyed exchange", self.simulation, port=self.settings.port)

    def key_stats(self) -> list[KeyCounts]:
        """Counts by key, in the order of the settings."""
        return self.simulation.key_stats()

    def block(self, place: int, *, blocked: bool = True) -> None:
        """Block the key at a place, from 1, or unblock it."""
        self.simulation.block(place, blocked=blocked)


class SimulatedKeyedExchangeProcess(ChildServer[KeyedFault]):
    """A simulated keyed exchange as a child process; a context manager.

    Args:
        cpu: pin the child to this core, where the system can.
        settings: fields of `KeyedSettings`.

    Raises:
        SpecError: a setting that cannot be used.
        ServerStartError: on entry, when the child does not come up.
    """

    def __init__(self, *, cpu: int | None = None, **settings: Any) -> None:
        self.settings = KeyedSettings.of(**settings)
        super().__init__(
            "keyed-exchange",
            self.settings.model_dump_json(),
            fault_class=KeyedFault,
            subject=KeyedSubject,
            cpu=cpu,
        )

    def key_stats(self) -> list[KeyCounts]:
        """Counts by key, in the order of the settings."""
        return [KeyCounts(**counts) for counts in self.stats()["keys"]]

    def block(self, place: int, *, blocked: bool = True) -> None:
        """Block the key at a place, from 1, or unblock it."""
        self._control("POST", "block" if blocked else "unblock", {"key": place})
