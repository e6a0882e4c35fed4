"""pyrate-limiter's surface, on our limiter and on its own limiter with our bucket."""

from __future__ import annotations

import asyncio
import http.server
import threading
import time
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import httpx
import pytest
from pyrate_limiter import AbstractBucket, Limiter, RateItem
from pyrate_limiter.extras.httpx_limiter import AsyncRateLimiterTransport, RateLimiterTransport

from headrace.errors import ConfigurationError
from headrace.quota import Gate, QuotaConfig, open_gate
from headrace.quota.bucket import SlotBucket, SlotLimiter
from headrace.quota.location import Place

Make = Callable[[str], Limiter]


@pytest.fixture
def gates(place: Place) -> Iterator[Callable[[str], Gate]]:
    opened: list[Gate] = []

    def make(rates: str) -> Gate:
        config = QuotaConfig(name=f"q{len(opened)}", rates=rates, burst=1000)
        opened.append(open_gate(place, config))
        return opened[-1]

    yield make
    for gate in opened:
        gate.close()


@pytest.fixture(params=["books", "asks"])
def make(request: pytest.FixtureRequest, gates: Callable[[str], Gate]) -> Iterator[Make]:
    limiters: list[Limiter] = []

    def made(rates: str) -> Limiter:
        gate = gates(rates)
        limiters.append(
            SlotLimiter(gate) if request.param == "books" else Limiter(SlotBucket(gate), 0)
        )
        return limiters[-1]

    yield made
    for limiter in limiters:
        limiter.close()


def test_gives_the_limit_at_once_and_then_nothing(make: Make) -> None:
    limiter = make("3/m")
    assert [limiter.try_acquire("x", blocking=False) for _ in range(5)] == [True] * 3 + [False] * 2


def test_waits_until_the_window_opens(make: Make) -> None:
    limiter = make("2/200ms")
    began = time.monotonic()
    assert all(limiter.try_acquire("x") for _ in range(5))
    assert time.monotonic() - began >= 0.4


def test_weights_count_as_many_and_a_weight_above_the_limit_is_refused(make: Make) -> None:
    limiter = make("3/m")
    assert limiter.try_acquire("x", weight=2, blocking=False)
    assert not limiter.try_acquire("x", weight=2, blocking=False)
    assert limiter.try_acquire("x", blocking=False)
    assert limiter.try_acquire("x", weight=0)
    assert not limiter.try_acquire("x", weight=4)


def test_a_deadline_is_kept(make: Make) -> None:
    limiter = make("1/m")
    limiter.try_acquire("x")
    began = time.monotonic()
    assert not limiter.try_acquire("x", timeout=0.2)
    assert time.monotonic() - began < 30


def test_several_rates_hold_together(make: Make) -> None:
    limiter = make("2/100ms,3/m")
    assert all(limiter.try_acquire("x") for _ in range(3))
    assert not limiter.try_acquire("x", blocking=False)
    time.sleep(0.15)
    assert not limiter.try_acquire("x", blocking=False)


def test_decorates_functions_and_coroutines(make: Make) -> None:
    limiter = make("2/m")

    @limiter.as_decorator(name="x")
    def double(number: int) -> int:
        return number * 2

    @limiter.as_decorator(name="x")
    async def triple(number: int) -> int:
        return number * 3

    assert double(2) == 4
    assert asyncio.run(triple(2)) == 6
    assert not limiter.try_acquire("x", blocking=False)


def test_coroutines_wait_without_holding_up_the_loop(make: Make) -> None:
    limiter = make("1/300ms")

    async def main() -> int:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.create_task(tick())
        assert all([await limiter.try_acquire_async("x") for _ in range(3)])
        ticking.cancel()
        return ticks

    assert asyncio.run(main()) > 5


def test_counts_peeks_and_flushes(make: Make) -> None:
    limiter = make("3/m")
    (bucket,) = limiter.buckets() or [limiter.bucket_factory.bucket]
    before = bucket.now()
    limiter.try_acquire("x", weight=2)
    assert bucket.count() == 2
    newest = bucket.peek(0)
    assert newest is not None
    assert abs(newest.timestamp - before) < 60_000
    assert bucket.peek(2) is None
    bucket.flush()
    assert bucket.failing_rate is None
    assert bucket.count() == 0
    assert limiter.try_acquire("x", weight=3, blocking=False)


def test_is_a_context_manager_that_leaves_the_gate_open(gates: Callable[[str], Gate]) -> None:
    gate = gates("5/m")
    with SlotLimiter(gate) as limiter:
        limiter.try_acquire("x")
    gate.take()


@pytest.fixture
def server() -> Iterator[str]:
    class Hello(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}/"
        served.shutdown()
        thread.join()


def test_limits_httpx_clients(make: Make, server: str) -> None:
    limiter = make("2/m")
    with httpx.Client(transport=RateLimiterTransport(limiter)) as client:
        assert client.get(server).status_code == 200

    async def fetch() -> int:
        async with httpx.AsyncClient(transport=AsyncRateLimiterTransport(limiter)) as client:
            return (await client.get(server)).status_code

    assert asyncio.run(fetch()) == 200
    assert not limiter.try_acquire("x", blocking=False)


def test_every_permit_of_a_gate_comes_through_pyrate_limiter(
    gates: Callable[[str], Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    put: list[int] = []
    really_put = Limiter.handle_bucket_put

    def noted(limiter: Limiter, bucket: AbstractBucket, item: RateItem, **how: Any) -> Any:
        assert isinstance(bucket, SlotBucket)
        put.append(item.weight)
        return really_put(limiter, bucket, item, **how)

    monkeypatch.setattr(Limiter, "handle_bucket_put", noted)
    gate = gates("100/m")
    with gate.admit(weight=2) as admission:
        admission.answered(200)

    async def coroutine() -> None:
        async with gate.admit(weight=3) as admission:
            admission.answered(200)

    asyncio.run(coroutine())
    gate.take(weight=4)
    SlotLimiter(gate).try_acquire("x", weight=5)
    # One whose moment had passed, on a busy machine, was exchanged for another.
    assert [weight for weight, _ in groupby(put)] == [2, 3, 4, 5]
    assert gate.status().book.windows[0].used == sum(put)


def test_without_rates_there_is_no_bucket(gates: Callable[[str], Gate]) -> None:
    with pytest.raises(ConfigurationError, match="no rates"):
        SlotBucket(gates("none"))
