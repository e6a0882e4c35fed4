"""Run a simulated exchange in the foreground until a signal, or the end of its parent, stops it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from headrace.sim.listener import Listener
from headrace.sim.server import listener_for
from headrace.sim.settings import ExchangeSettings
from headrace.sim.simulation import ExchangeSimulation


def serve(
    settings: ExchangeSettings,
    on_ready: Callable[[str], None],
    *,
    parent_fd: int | None = None,
) -> ExchangeSimulation:
    """Serve until SIGINT or SIGTERM; returns the simulation for a last look at its counts.

    Args:
        settings: what to serve.
        on_ready: told the URL once connections are accepted.
        parent_fd: a pipe from the parent: when the parent ends, however it ends, so does this.

    Raises:
        PortInUseError: the port is taken.
    """
    simulation = ExchangeSimulation(settings)
    serve_listener(listener_for(simulation), on_ready, parent_fd=parent_fd)
    return simulation


def serve_listener(
    listener: Listener, on_ready: Callable[[str], None], *, parent_fd: int | None = None
) -> None:
    """Serve any listener until SIGINT or SIGTERM; arguments as for `serve`."""
    asyncio.run(_serve(listener, on_ready, parent_fd))


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
    listener.mind_door()
    on_ready(listener.url)
    await listener.run(stop)
