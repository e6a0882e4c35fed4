"""The simulated exchange as a server on a thread of this process."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from headrace.sim.arrivals import Arrival
from headrace.sim.catalogue import ProductSpec
from headrace.sim.control import PREFIX, Control
from headrace.sim.faults import Fault, parse_fault
from headrace.sim.history import History
from headrace.sim.http import Reply, Request
from headrace.sim.listener import Listener
from headrace.sim.market import LiteralRow
from headrace.sim.settings import ExchangeSettings
from headrace.sim.simulation import ExchangeSimulation

_JOIN_S = 10.0


def listener_for(simulation: ExchangeSimulation) -> Listener:
    """The port of a simulation, with its control endpoint.

    Raises:
        PortInUseError: the port of its settings is taken.
    """
    control = Control(simulation)

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


class SimulatedExchange:
    """A simulated exchange on a thread of this process; a context manager.

    Args:
        products: specs, or their text (`"BTC-USD:2500"`); none for the default catalogue.
        now: what the newest trades carry as their time at the start; default: the present.
        clock: seconds, for growth per second, limits, intervals and the log; a test may pass its
            own. Latency and dripping pass in real time all the same.
        settings: any other field of `ExchangeSettings`: seed, latency, limits, faults, keys, port.

    Raises:
        SpecError: a setting that cannot be used.
        PortInUseError: on entry, when the port is taken.
    """

    def __init__(
        self,
        *products: ProductSpec | str,
        now: datetime | None = None,
        clock: Callable[[], float] = time.monotonic,
        **settings: Any,
    ) -> None:
        self.settings = ExchangeSettings.of(*products, now=now, **settings)
        self.simulation = ExchangeSimulation(self.settings, clock=clock)
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="simulated-exchange", daemon=True)
        self._listener: Listener | None = None
        self._loop: asyncio.AbstractEventLoop

    def __enter__(self) -> Self:
        self._listener = listener_for(self.simulation)
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
            raise RuntimeError(f"the simulated exchange did not stop within {_JOIN_S:.0f} s")

    @property
    def url(self) -> str:
        """Its base URL, without a slash at the end."""
        return self._open_listener().url

    @property
    def port(self) -> int:
        """Its port on 127.0.0.1."""
        return self._open_listener().port

    def history(self, product: str) -> History:
        """The truth about a product."""
        return self.simulation.history(product)

    def newest_id(self, product: str) -> int:
        """The highest id that is out now."""
        return self.simulation.newest_id(product)

    def grow(self, product: str, trades: int) -> None:
        """Put `trades` new ids on a product's tape."""
        self.simulation.grow(product, trades)

    def put_product(self, spec: ProductSpec) -> None:
        """List a product, or change how a listed one is answered for."""
        self.simulation.put_product(spec)

    def replace_rows(self, product: str, rows: Mapping[int, LiteralRow]) -> None:
        """Serve literal rows under these ids; `None` makes a hole."""
        self.simulation.replace_rows(product, rows)

    def serve_rows(self, product: str, rows: Mapping[int, LiteralRow]) -> None:
        """Serve these rows of a product and nothing else."""
        self.simulation.serve_rows(product, rows)

    def add_fault(self, fault: Fault | str) -> int:
        """Put a fault in force, from the next request on; returns its number."""
        number = self.simulation.add_fault(parse_fault(fault) if isinstance(fault, str) else fault)
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

    def stats(self, windows_s: Sequence[float] = (1.0,)) -> dict[str, Any]:
        """Counts; see `ExchangeSimulation.stats`."""
        return self.simulation.stats(windows_s)

    def arrivals(self) -> list[Arrival]:
        """The requests that arrived, oldest first."""
        return self.simulation.arrivals()

    def reset_log(self) -> None:
        """Forget the requests so far."""
        self.simulation.reset_log()

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
            raise RuntimeError("enter the simulated exchange first: with SimulatedExchange(…)")
        return self._listener


async def _mind(listener: Listener) -> None:
    listener.mind_door()


async def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """Let tasks that hang, wait or drip end before their loop does."""
    tasks = asyncio.all_tasks(loop) - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
