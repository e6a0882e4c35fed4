"""A simulated server on a thread of this process, whatever it simulates."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Generic, Self

from headrace.sim.arrivals import Arrival
from headrace.sim.control_desk import ControlDesk
from headrace.sim.listener import Listener
from headrace.sim.scripted import F
from headrace.sim.service import SimulatedService
from headrace.sim.serving import listener_for

_JOIN_S = 10.0


class ThreadedServer(Generic[F]):
    """Serves a simulation on a thread of its own for the time of a `with` block.

    Args:
        name: of the thread, and of the server in messages.
        desk: the simulation's control endpoint.
        port: 0 for any that is free.
        parse: reads a fault as written on the command line.

    Raises:
        PortInUseError: on entry, when the port is taken.
    """

    def __init__(
        self, name: str, desk: ControlDesk[F], *, port: int, parse: Callable[[str], F]
    ) -> None:
        self._name = name
        self._desk = desk
        self._service: SimulatedService[F] = desk.service
        self._wanted_port = port
        self._parse = parse
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name.replace(" ", "-"), daemon=True)
        self._listener: Listener | None = None
        self._loop: asyncio.AbstractEventLoop

    def __enter__(self) -> Self:
        self._listener = listener_for(self._desk, self._wanted_port)
        self._loop = asyncio.new_event_loop()
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_JOIN_S)
        if self._thread.is_alive():
            raise RuntimeError(f"the {self._name} did not stop within {_JOIN_S:.0f} s")

    @property
    def url(self) -> str:
        """Its base URL, without a slash at the end."""
        return self._open_listener().url

    @property
    def port(self) -> int:
        """Its port on 127.0.0.1."""
        return self._open_listener().port

    def add_fault(self, fault: F | str) -> int:
        """Put a fault in force, from the next request on; returns its number."""
        fault = self._parse(fault) if isinstance(fault, str) else fault
        number = self._service.add_fault(fault)
        self._mind_door()
        return number

    def remove_fault(self, number: int) -> None:
        """Lift one fault."""
        self._service.remove_fault(number)
        self._mind_door()

    def clear_faults(self) -> None:
        """Lift every fault."""
        self._service.clear_faults()
        self._mind_door()

    def stats(self, windows_s: Sequence[float] = (1.0,)) -> dict[str, Any]:
        """Counts; see `SimulatedService.stats`."""
        return self._service.stats(windows_s)

    def arrivals(self) -> list[Arrival]:
        """The requests that arrived, oldest first."""
        return self._service.arrivals()

    def reset_log(self) -> None:
        """Forget the requests so far."""
        self._service.reset_log()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            self._failure = error  # raised on the thread that entered, if it still waits
            raise
        finally:
            self._ready.set()
            self._loop.run_until_complete(_cancel_all(self._loop))
            self._loop.close()

    async def _serve(self) -> None:
        listener = self._open_listener()
        listener.mind_door()
        self._ready.set()
        await listener.run(self._stop)

    def _mind_door(self) -> None:
        """Shut or open the door before the caller goes on."""
        if self._listener is not None and self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(_mind(self._listener), self._loop).result(_JOIN_S)

    def _open_listener(self) -> Listener:
        if self._listener is None:
            raise RuntimeError(f"enter the {self._name} first: with {type(self).__name__}(…)")
        return self._listener


async def _mind(listener: Listener) -> None:
    listener.mind_door()


async def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """Let tasks that hang, wait or drip end before their loop does."""
    tasks = asyncio.all_tasks(loop) - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
