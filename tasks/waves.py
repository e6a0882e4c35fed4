"""Map a task over many calls on a pool, a bounded number at a time.

A mapped queue cannot be cancelled and its futures stay in memory, so calls go out in waves: at
most twice the pool's width are out, and the next wave follows when half of that is done. The pool
never runs dry in between, and a stop takes effect within one wave.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from prefect import Task, unmapped
from prefect.futures import PrefectFuture
from prefect.task_runners import ThreadPoolTaskRunner

from headrace.stopping import StopEvent

Call = TypeVar("Call")


class Ended(Generic[Call]):
    """One call that ended: what it was asked, and what it returned or raised."""

    __slots__ = ("call", "outcome")

    def __init__(self, call: Call, outcome: Any) -> None:
        self.call = call
        self.outcome = outcome


def map_in_waves(
    pool: ThreadPoolTaskRunner,
    task: Task[..., Any],
    calls: Iterator[Call],
    *,
    as_parameters: Any,
    fixed: dict[str, Any],
    width: int,
    stop: StopEvent,
    tick_s: float = 0.5,
) -> Iterator[Ended[Call] | None]:
    """Yield every call as it ends, and None at least every `tick_s` seconds in between.

    Args:
        calls: taken from only as the pool has room; no more once `stop` is set.
        as_parameters: turns a call into its mapped parameters.
        fixed: parameters that are the same for all calls.
        width: the pool's width.
    """
    ended: SimpleQueue[tuple[Call, PrefectFuture[Any]]] = SimpleQueue()
    out = 0
    more = True
    while True:
        if more and out <= width and not stop.is_set():
            wave = list(islice(calls, 2 * width - out))
            more = bool(wave)
            if wave:
                _send(pool, task, wave, as_parameters, fixed, ended)
                out += len(wave)
        if not out:
            return
        try:
            call, future = ended.get(timeout=tick_s)
        except Empty:
            yield None
            continue
        out -= 1
        yield Ended(call, future.result(raise_on_failure=False))


def _send(
    pool: ThreadPoolTaskRunner,
    task: Task[..., Any],
    wave: list[Call],
    as_parameters: Any,
    fixed: dict[str, Any],
    ended: SimpleQueue[tuple[Call, PrefectFuture[Any]]],
) -> None:
    rows = [as_parameters(call) for call in wave]
    mapped = {name: [row[name] for row in rows] for name in rows[0]}
    constant = {name: unmapped(value) for name, value in fixed.items()}
    for call, future in zip(wave, pool.map(task, {**mapped, **constant}), strict=True):
        # Bound now: the loop's variables will have moved on when the future ends.
        future.add_done_callback(lambda done, call=call: ended.put((call, done)))
