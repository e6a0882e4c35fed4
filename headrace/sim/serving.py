"""Run a simulation in the foreground until a signal, or the end of its parent, stops it."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable

from headrace.sim.child import PREFIX
from headrace.sim.control_desk import ControlDesk
from headrace.sim.http import Reply, Request
from headrace.sim.listener import Listener
from headrace.sim.scripted import F


def listener_for(desk: ControlDesk[F], port: int) -> Listener:
    """The port of a simulation and its control endpoint.

    Raises:
        PortInUseError: the port is taken.
    """

    async def handle(request: Request) -> Reply:
        if request.path.startswith(PREFIX):
            return desk.answer(request)
        return await service.handle(request)

    service = desk.service
    return Listener(handle, clock=service.clock, shut=service.refuses_connections, port=port)


def serve_listener(
    listener: Listener, on_ready: Callable[[str], None], *, parent_fd: int | None = None
) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        listener: what to serve.
        on_ready: told the URL once connections are accepted.
        parent_fd: a pipe from the parent: when the parent ends, however it ends, so does this.
    """
    asyncio.run(_serve(listener, on_ready, parent_fd))


def serve_for_launcher(listener: Listener) -> None:
    """Serve for a parent that reads the URL as a line of JSON and holds the other end of stdin."""

    def say(url: str) -> None:
        sys.stdout.write(json.dumps({"url": url}) + "\n")
        sys.stdout.flush()

    serve_listener(listener, say, parent_fd=sys.stdin.fileno())


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
