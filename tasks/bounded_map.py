"""Map a task over many calls on a pool, a bounded number at a time.

A mapped queue cannot be cancelled and its futures stay in memory, so calls go out in waves: at
most twice the pool's width are out, and the next wave follows when half of that is done. The pool
never runs dry in between, and a stop takes effect within one wave.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from prefect import Task, unmapped
from prefect.client.schemas import State
from prefect.futures import PrefectConcurrentFuture
from prefect.results import ResultRecord  # type: ignore[attr-defined]
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from headrace.extras import require
from headrace.stopping import StopEvent, Stopped

Call = TypeVar("Call")


def why_none(outcome: object) -> str:
    """Why a task run left nothing: the run is to stop (None: it was not begun), or it crashed."""
    return Stopped().message if outcome is None else f"the task run crashed ({outcome!r})"


def task_pool(runner: str, width: int) -> TaskRunner[Any]:
    """Where mapped tasks run.

    Args:
        runner: `threads` of this process; `dask` for a cluster of as many processes on this
            machine; `dask:ADDRESS` for one that is there.
        width: how many tasks at once.

    Raises:
        ExtraMissing: prefect-dask is not installed.
    """
    if runner == "threads":
        return thread_pool(width)
    require("dask")
    from prefect_dask.task_runners import DaskTaskRunner

    if address := runner.removeprefix("dask").removeprefix(":"):
        return DaskTaskRunner(address=address)
    cluster = {
        "n_workers": width,
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": None,
        "preload": ["tasks.dask_worker"],
        # Its processes complain, with tracebacks, of a cluster that ends before they do.
        "silence_logs": logging.CRITICAL,
    }
    return DaskTaskRunner(cluster_kwargs=cluster)


def thread_pool(width: int) -> ThreadPoolTaskRunner[Any]:
    """A pool of `width` threads for mapped tasks."""
    return ThreadPoolTaskRunner(max_workers=width)


class Ended(Generic[Call]):
    """One call that ended: what it was asked, and what it returned or raised.

    The outcome is None if it was called off before it began.
    """

    __slots__ = ("call", "outcome")

    def __init__(self, call: Call, outcome: Any) -> None:
        self.call = call
        self.outcome = outcome


def map_in_waves(
    pool: TaskRunner[Any],
    task: Task[..., Any],
    calls: Iterator[Call],
    *,
    as_parameters: Any,
    fixed: dict[str, Any],
    width: int,
    stop: StopEvent,
) -> Iterator[Ended[Call] | None]:
    """Yield every call as it ends, and None at least every half second in between.

    Args:
        calls: taken from only as the pool has room; no more once `stop` is set.
        as_parameters: turns a call into its mapped parameters.
        fixed: parameters that are the same for all calls.
        width: the pool's width.
    """
    ended: SimpleQueue[tuple[Call, PrefectConcurrentFuture[Any]]] = SimpleQueue()
    out: set[PrefectConcurrentFuture[Any]] = set()
    more = True
    while True:
        if stop.is_set():
            _call_off(out)
        elif more and len(out) <= width:
            wave = list(islice(calls, 2 * width - len(out)))
            more = bool(wave)
            if wave:
                out |= _send(pool, task, wave, as_parameters, fixed, ended)
        if not out:
            return
        try:
            call, future = ended.get(timeout=0.5)
        except Empty:
            yield None
            continue
        out.remove(future)
        yield Ended(call, None if future.wrapped_future.cancelled() else _outcome(future))


def _outcome(future: PrefectConcurrentFuture[Any]) -> Any:
    """What a task run that ended returned or raised.

    A result that is at hand is taken as it is: for each one, Prefect would start a coroutine in
    another thread and wait for it.
    """
    try:
        state = future.wrapped_future.result()
    except Exception as error:  # noqa: BLE001 - the process of a cluster that ran it died
        return error
    if isinstance(state, State) and isinstance(state.data, ResultRecord):
        return state.data.result
    return future.result(raise_on_failure=False)


def _call_off(out: Iterable[PrefectConcurrentFuture[Any]]) -> None:
    """Take back what no thread has begun; it ends at once, without a task run."""
    for future in out:
        future.wrapped_future.cancel()


def _send(
    pool: TaskRunner[Any],
    task: Task[..., Any],
    wave: list[Call],
    as_parameters: Any,
    fixed: dict[str, Any],
    ended: SimpleQueue[tuple[Call, PrefectConcurrentFuture[Any]]],
) -> set[PrefectConcurrentFuture[Any]]:
    rows = [as_parameters(call) for call in wave]
    mapped = {name: [row[name] for row in rows] for name in rows[0]}
    constant = {name: unmapped(value) for name, value in fixed.items()}
    # Typed by Prefect as futures of futures.
    futures: list[Any] = list(pool.map(task, {**mapped, **constant}))
    for call, future in zip(wave, futures, strict=True):
        # Bound now: the loop's variables will have moved on when the future ends.
        future.wrapped_future.add_done_callback(
            lambda _done, call=call, future=future: ended.put((call, future))
        )
    return set(futures)
