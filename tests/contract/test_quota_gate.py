"""What every gate does, with a limit and without one."""

from __future__ import annotations

import asyncio
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.quota import (
    BreakerChange,
    BreakerConfig,
    Gate,
    Lane,
    OutageError,
    PermitTimeout,
    Phase,
    QuotaConfig,
    RatesError,
    open_gate,
)
from headrace.quota.location import Place
from headrace.stopping import StopEvent, Stopped

QUICK = BreakerConfig(cooldown_s=0.2, cooldown_growth=1)


@pytest.fixture(params=["1000/s", "none"])
def open_any(request: pytest.FixtureRequest, place: Place) -> Iterator[Callable[..., Gate]]:
    opened: list[Gate] = []

    def make(breaker: BreakerConfig = QUICK, **settings: Any) -> Gate:
        config = QuotaConfig(name="api:80", rates=request.param)
        opened.append(open_gate(place, config, breaker, **settings))
        return opened[-1]

    yield make
    for gate in opened:
        gate.close()


def answer(gate: Gate, status: int, times: int = 1) -> None:
    for _ in range(times):
        with gate.admit() as admission:
            admission.sending()
            admission.answered(status)


def test_admits_and_counts(open_any: Callable[..., Gate]) -> None:
    gate = open_any()
    answer(gate, 200, times=3)
    answer(gate, 429)
    assert (gate.counters.admitted, gate.counters.throttled) == (4, 1)
    assert gate.waiting_for() is None
    assert gate.status().breaker.phase is Phase.CLOSED


def test_state_is_private(open_any: Callable[..., Gate], place: Place) -> None:
    if not isinstance(place, Path):
        pytest.skip("a server's users are its own matter")
    answer(open_any(), 200)
    folder = place
    assert folder.stat().st_mode & 0o777 == 0o700
    for path in folder.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429])
def test_a_refusal_is_no_failure_of_the_server(open_any: Callable[..., Gate], status: int) -> None:
    gate = open_any()
    answer(gate, 500, times=4)
    answer(gate, status)
    answer(gate, 500, times=4)
    assert gate.status().breaker.phase is Phase.CLOSED


def test_failures_open_the_breaker_and_probes_close_it(open_any: Callable[..., Gate]) -> None:
    gate = open_any()
    changes: list[BreakerChange] = []
    gate.on_breaker_change(changes.append)
    began = time.monotonic()
    answer(gate, 503, times=5)
    answer(gate, 200, times=3)
    # The cooldown passed in between, whatever of it this process spent waiting for a processor.
    assert time.monotonic() - began >= QUICK.cooldown_s
    assert [change.after for change in changes] == [Phase.OPEN, Phase.HALF_OPEN, Phase.CLOSED]
    assert changes[0].failures == 5


def test_time_outs_and_broken_answers_count_as_failures(open_any: Callable[..., Gate]) -> None:
    gate = open_any()
    for _ in range(2):
        with pytest.raises(TimeoutError), gate.admit():
            raise TimeoutError
    for _ in range(3):
        with gate.admit() as admission:
            admission.failed()
    assert gate.status().breaker.phase is Phase.OPEN


@pytest.mark.parametrize("error", [Stopped, KeyboardInterrupt])
def test_work_called_off_says_nothing_about_the_server(
    open_any: Callable[..., Gate], error: type[BaseException]
) -> None:
    gate = open_any()
    for _ in range(9):
        with pytest.raises(error), gate.admit():
            raise error
        with gate.admit() as admission:
            admission.failed(neutral=True)
    assert gate.status().breaker.failures == 0


def test_an_outage_survives_a_restart(open_any: Callable[..., Gate]) -> None:
    lasting = BreakerConfig(cooldown_s=60)
    gate = open_any(lasting)
    answer(gate, 500, times=5)
    gate.close()
    again = open_any(lasting, outage_limit_s=0)
    with pytest.raises(OutageError) as caught, again.admit():
        pass
    assert caught.value.limit_s == 0


def test_waits_through_an_outage_up_to_the_limit(open_any: Callable[..., Gate]) -> None:
    gate = open_any(BreakerConfig(cooldown_s=60), outage_limit_s=0.3)
    began = time.monotonic()
    answer(gate, 500, times=5)
    assert gate.status().health == "open"
    with pytest.raises(OutageError), gate.admit():
        pass
    assert 0.3 <= time.monotonic() - began < 30


def test_a_deadline_within_the_cooldown_is_refused_at_once(open_any: Callable[..., Gate]) -> None:
    gate = open_any(BreakerConfig(cooldown_s=60))
    answer(gate, 500, times=5)
    with pytest.raises(PermitTimeout) as caught, gate.admit(timeout_s=50):
        pass
    assert caught.value.cause == "breaker"
    # What is left of the cooldown: after a wait it would be less.
    assert caught.value.wait_s > 50


def test_failures_of_one_request_count_once_whichever_gates_report_them(
    open_any: Callable[..., Gate],
) -> None:
    one, other = open_any(), open_any()
    for gate in (one, other, one, other, one, other):
        with gate.admit(request="GET /bad") as admission:
            admission.answered(500)
    assert one.status().breaker.failures == 1
    for number, gate in enumerate((other, one, other, one)):
        with gate.admit(request=f"GET /{number}") as admission:
            admission.failed()
    assert one.status().breaker.phase is Phase.OPEN


LOCAL: list[Exception] = [
    ValueError("the header cannot be sent"),
    OSError(24, "Too many open files"),
    MemoryError(),
    Stopped(),
]


@pytest.mark.parametrize("error", LOCAL, ids=lambda error: type(error).__name__)
def test_only_what_the_server_did_is_its_failure(
    open_any: Callable[..., Gate], error: Exception
) -> None:
    gate = open_any()
    for _ in range(6):
        with pytest.raises(type(error)), gate.admit():
            raise error
    assert gate.status().breaker.failures == 0
    for timeout in (TimeoutError(), ConnectionResetError(), TimeoutError(), BrokenPipeError()):
        with pytest.raises(type(timeout)), gate.admit():
            raise timeout
    assert gate.status().breaker.failures == 4


def test_a_stop_ends_a_wait_for_the_breaker(open_any: Callable[..., Gate]) -> None:
    gate, stop = open_any(BreakerConfig(cooldown_s=60)), StopEvent()
    answer(gate, 500, times=5)

    def stop_a_wait() -> None:
        while gate.waiting_for() is None:
            time.sleep(0.005)
        stop.set()

    stopper = threading.Thread(target=stop_a_wait)
    stopper.start()
    with pytest.raises(Stopped), gate.admit(stop=stop):
        pass
    stopper.join()
    assert 0 < gate.counters.waited_s["breaker"] < 30


def test_half_open_lets_one_of_many_threads_go_at_a_time(open_any: Callable[..., Gate]) -> None:
    gate = open_any()
    answer(gate, 500, times=5)
    inside, most, mutex = 0, 0, threading.Lock()
    closed = threading.Event()

    def fetch() -> None:
        nonlocal inside, most
        with gate.admit() as admission:
            with mutex:
                inside += 1
                if not closed.is_set():
                    most = max(most, inside)
            time.sleep(0.02)
            with mutex:
                inside -= 1
            admission.answered(200)
            if gate.status().breaker.phase is Phase.CLOSED:
                closed.set()

    threads = [threading.Thread(target=fetch) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert closed.is_set()
    assert most >= 1
    assert gate.counters.admitted == 17


def test_admits_coroutines(open_any: Callable[..., Gate]) -> None:
    gate = open_any()

    async def fetch() -> None:
        async with gate.admit(lane=Lane.INGEST) as admission:
            await admission.about_to_send()
            admission.answered(200)

    async def main() -> None:
        await asyncio.gather(*(fetch() for _ in range(20)))

    asyncio.run(main())
    assert gate.counters.admitted == 20


def test_a_cancelled_coroutine_gives_its_wish_back(open_any: Callable[..., Gate]) -> None:
    gate = open_any(BreakerConfig(cooldown_s=60))
    answer(gate, 500, times=5)

    async def main() -> None:
        task = asyncio.create_task(gate.admit().__aenter__())
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    began = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - began < 30


def test_a_coroutine_that_queues_for_a_thread_is_cancelled_at_once(place: Place) -> None:
    async def main() -> float:
        with open_gate(place, QuotaConfig(name="slow", rates="1/m")) as gate:
            waiting = [asyncio.create_task(gate.admit().__aenter__()) for _ in range(100)]
            await asyncio.sleep(0.3)
            began = time.monotonic()
            waiting[-1].cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting[-1]
            took_s = time.monotonic() - began
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            return took_s

    assert asyncio.run(main()) < 30


def test_a_coroutine_whose_permit_became_void_waits_beside_the_loop(place: Place) -> None:
    async def main() -> int:
        turns = 0

        async def watch() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0.01)
                turns += 1

        with open_gate(place, QuotaConfig(name="slow", rates="1/s")) as gate:
            async with gate.admit() as admission:
                time.sleep(0.1)  # the loop is held up, longer than the permit's guard
                gate.take()  # and another caller has the next one
                watching = asyncio.create_task(watch())
                await admission.about_to_send()
                admission.answered(200)
            watching.cancel()
        return turns

    # It waits a second for its new permit; the loop goes round meanwhile.
    assert asyncio.run(main()) > 3


def test_no_time_to_wait_takes_what_is_there(place: Place) -> None:
    with open_gate(place, QuotaConfig(name="q", rates="2/3s", burst=2)) as gate:
        gate.take(timeout_s=0)
        with gate.admit(timeout_s=0) as admission:
            admission.answered(200)
        with pytest.raises(PermitTimeout, match=r"at least 2\.|at least 3"):
            gate.take(timeout_s=0)


@pytest.mark.parametrize("limit_s", [float("inf"), 1e300, None])
def test_a_limit_without_end_is_none(place: Place, limit_s: float | None) -> None:
    config = QuotaConfig(name="q", rates="10/s")
    with open_gate(place, config, outage_limit_s=limit_s) as gate:
        for _ in range(3):
            gate.take(timeout_s=limit_s)


def test_a_pickled_gate_opens_the_same_files(open_any: Callable[..., Gate]) -> None:
    gate = open_any(BreakerConfig(cooldown_s=60))
    answer(gate, 500, times=5)
    with pickle.loads(pickle.dumps(gate)) as copy:
        assert copy.status().breaker.phase is Phase.OPEN


@pytest.mark.parametrize("weight", [0, -1])
def test_a_weight_that_means_nothing_is_refused(open_any: Callable[..., Gate], weight: int) -> None:
    with pytest.raises(RatesError):
        open_any().admit(weight=weight)
