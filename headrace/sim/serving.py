"""Serve a simulation: in the foreground until a signal stops it, or on a thread of this process."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, Self

from headrace.sim.arrivals import Arrival
from headrace.sim.control import control_reply
from headrace.sim.faults import F
from headrace.sim.http import HOST, Listener, Reply, Request
from headrace.sim.process import PREFIX
from headrace.sim.service import SimulatedService


def serve(
    service: SimulatedService[F],
    port: int,
    on_ready: Callable[[str], None],
    *,
    parent_fd: int | None = None,
    host: str = HOST,
) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        service: what to serve, with its control endpoint.
        port: 0 for any that is free.
        on_ready: called with the URL once connections are accepted.
        parent_fd: a pipe from the parent: when the parent ends, however it ends, so does this.
        host: the address to listen on.

    Raises:
        PortInUseError: the port is taken.
    """
    asyncio.run(_serve(_listener(service, port, host), on_ready, parent_fd))


def serve_for_parent(service: SimulatedService[F], port: int) -> None:
    """Serve for a parent that reads the URL as a line of JSON and holds the other end of stdin."""

    def report(url: str) -> None:
        sys.stdout.write(json.dumps({"url": url}) + "\n")
        sys.stdout.flush()

    serve(service, port, report, parent_fd=sys.stdin.fileno())


def _listener(service: SimulatedService[F], port: int, host: str = HOST) -> Listener:
    async def handle(request: Request) -> Reply:
        if request.path.startswith(PREFIX):
            return control_reply(service, request)
        return await service.handle(request)

    return Listener(
        handle, clock=service.clock, refuses=service.refuses_connections, port=port, host=host
    )


async def _serve(
    listener: Listener, on_ready: Callable[[str], None], parent_fd: int | None
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, stop.set)
    if parent_fd is not None:
        # The parent never writes again, so "readable" means that its end of the pipe is closed.
        loop.add_reader(parent_fd, stop.set)
    listener.open_or_close()
    on_ready(listener.url)
    await listener.run(stop)


_JOIN_S = 10.0


class ThreadedServer(Generic[F]):
    """Serves a simulation on a thread of its own for the time of a `with` block.

    Args:
        name: of the thread, and of the server in messages.
        service: the simulation.
        port: 0 for any that is free.

    Raises:
        PortInUseError: on entry, when the port is taken.
    """

    def __init__(self, name: str, service: SimulatedService[F], *, port: int) -> None:
        self._name = name
        self._service = service
        self._wanted_port = port
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name.replace(" ", "-"), daemon=True)
        self._listener: Listener | None = None
        self._loop: asyncio.AbstractEventLoop

    def __enter__(self) -> Self:
        self._listener = _listener(self._service, self._wanted_port)
        self._loop = asyncio.new_event_loop()
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, *_raised: object) -> None:
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
        fault = self._service.fault_class.parse(fault) if isinstance(fault, str) else fault
        number = self._service.add_fault(fault)
        self._apply_refusals()
        return number

    def remove_fault(self, number: int) -> None:
        """Lift one fault."""
        self._service.remove_fault(number)
        self._apply_refusals()

    def clear_faults(self) -> None:
        """Lift every fault."""
        self._service.clear_faults()
        self._apply_refusals()

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
        listener.open_or_close()
        self._ready.set()
        await listener.run(self._stop)

    def _apply_refusals(self) -> None:
        """Accept or refuse connections as the faults say, before the caller goes on."""
        listener = self._listener
        if listener is None or not self._thread.is_alive():
            return

        async def apply() -> None:
            listener.open_or_close()

        asyncio.run_coroutine_threadsafe(apply(), self._loop).result(_JOIN_S)

    def _open_listener(self) -> Listener:
        if self._listener is None:
            raise RuntimeError(f"enter the {self._name} first: with {type(self).__name__}(…)")
        return self._listener


async def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """Let tasks that hang, wait or drip end before their loop does."""
    tasks = asyncio.all_tasks(loop) - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
