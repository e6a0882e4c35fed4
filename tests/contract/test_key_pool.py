"""What every pool of API keys does, with one key and with several."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from headrace.errors import ConfigurationError
from headrace.quota import (
    BreakerConfig,
    BufferConfig,
    KeyChange,
    KeyPool,
    KeysRefused,
    OutageError,
    PermitTimeout,
    PoolKey,
    QuotaConfig,
    RatesConflict,
    open_key_pool,
    parse_rates,
)
from headrace.quota.bucket import SlotBucket
from headrace.quota.location import Place
from headrace.stopping import StopEvent, Stopped

#: Longer than any of these tests takes, where nothing is to come back by itself.
NEVER_S = 3600.0
QUICK = BreakerConfig(failures=2, cooldown_s=NEVER_S)
CLOSE = BufferConfig(initial_ms=5, floor_ms=0, ceiling_ms=50)

Open = Callable[..., KeyPool]


def secrets(count: int) -> list[PoolKey]:
    return [PoolKey(f"label {n}", SecretStr(f"sec-ret-{n}")) for n in range(1, count + 1)]


@pytest.fixture(params=[1, 3], ids=["one key", "three keys"])
def count(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def open_pool(place: Place, count: int) -> Iterator[Open]:
    opened: list[KeyPool] = []

    def make(rates: str = "1000/s", keys: list[PoolKey] | None = None, **more: Any) -> KeyPool:
        given = secrets(count) if keys is None else keys
        of_quota = {"burst": more.pop("burst", None), "buffer": more.pop("buffer", None)}
        config = QuotaConfig(name="api:80", rates=parse_rates(rates), **of_quota)
        settings = {"breaker": QUICK, "cooldown_s": NEVER_S, **more}
        opened.append(open_key_pool(place, config, given, **settings))
        return opened[-1]

    yield make
    for pool in opened:
        pool.close()


def answer(pool: KeyPool, status: int = 200, times: int = 1) -> list[str]:
    labels = []
    for _ in range(times):
        with pool.admit() as admission:
            admission.sending()
            labels.append(admission.key.label)
            admission.answered(status)
    return labels


def refuse(pool: KeyPool, label: str, status: int = 401) -> None:
    """Have the server refuse one key, answer well for the others."""
    while True:
        with pool.admit() as admission:
            admission.sending()
            admission.answered(status if admission.key.label == label else 200)
            if admission.key.label == label:
                return


def test_permits_are_spread_evenly_over_keys(open_pool: Open, count: int) -> None:
    used = Counter(answer(open_pool(), times=30))
    assert set(used.values()) == {30 // count}


def test_every_permit_is_acquired_through_the_library(
    open_pool: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, calls = SlotBucket.put, []

    def counted(self: SlotBucket, item: Any) -> bool:
        calls.append(item)
        return put(self, item)

    monkeypatch.setattr(SlotBucket, "put", counted)
    answer(open_pool(), times=5)
    assert len(calls) >= 5


def test_no_key_leaves_more_often_than_its_rate(open_pool: Open, count: int) -> None:
    pool = open_pool("5/300ms")
    left: dict[str, list[int]] = {key.label: [] for key in pool.keys}
    mutex, end = threading.Lock(), time.monotonic() + 1.5

    def work() -> None:
        while time.monotonic() < end:
            with pool.admit() as admission:
                admission.sending()
                with mutex:
                    left[admission.key.label].append(time.monotonic_ns())
                admission.answered(200)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for moments in left.values():
        assert len(moments) > 5
        for earlier, later in zip(moments, moments[5:], strict=False):
            assert later - earlier >= 290_000_000  # stamped after leaving, in no fixed order


def test_a_refused_key_is_set_aside_by_itself(
    open_pool: Open, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    pool, changes = open_pool(), []
    pool.on_key_change(changes.append)
    refuse(pool, "label 1", 403)
    assert changes == [KeyChange("api:80", "label 1", False, 403, pytest.approx(NEVER_S, rel=0.01))]
    assert "key label 1 was refused (status 403)" in caplog.text
    assert pool.usable_keys() == [f"label {n}" for n in range(2, count + 1)]
    if count == 1:
        with pytest.raises(KeysRefused, match=r"label 1 \(403\)"):
            answer(pool)
    else:
        assert set(answer(pool, times=10)) == {"label 2", "label 3"}
        assert set(answer(open_pool(), times=10)) == {"label 2", "label 3"}  # another process


def test_a_refused_key_is_tried_once_and_taken_back(open_pool: Open, count: int) -> None:
    pool, changes = open_pool(cooldown_s=0.2), []
    refuse(pool, "label 1")
    pool.on_key_change(changes.append)
    time.sleep(0.25)
    with pool.admit() as probe:
        assert probe.key.label == "label 1"
        if count > 1:  # one request at a time tries it
            assert "label 1" not in answer(pool, times=6)
        probe.sending()
        probe.answered(200)
    assert [(change.label, change.usable) for change in changes] == [("label 1", True)]
    assert "label 1" in answer(pool, times=6)


def test_a_probe_that_is_refused_sets_the_key_aside_for_longer(open_pool: Open) -> None:
    pool, changes = open_pool(cooldown_s=0.2), []
    pool.on_key_change(changes.append)
    refuse(pool, "label 1")
    time.sleep(0.25)
    refuse(pool, "label 1")
    assert [change.pause_s for change in changes] == pytest.approx([0.2, 0.4], rel=0.1)


def test_a_429_slows_down_one_key(open_pool: Open, count: int) -> None:
    pool = open_pool("10/100ms")
    with pool.admit() as admission:
        admission.sending()
        admission.answered(429, retry_after_s=NEVER_S)
        label = admission.key.label
    if count == 1:
        with pytest.raises(PermitTimeout):
            pool.admit(timeout_s=0.5).__enter__()
    else:
        assert label not in answer(pool, times=20)


def test_a_key_that_is_throttled_again_rests_and_is_named(
    open_pool: Open, caplog: pytest.LogCaptureFixture
) -> None:
    pool, changes = open_pool("10/h", burst=10), []
    pool.on_key_change(changes.append)
    refuse(pool, "label 1", 429)
    assert changes == []
    refuse(pool, "label 1", 429)
    assert changes == [KeyChange("api:80", "label 1", False, 429, 300)]  # a window, but no hour
    assert "429: key label 1 rests for 300 s" in caplog.text


def test_a_failing_server_is_left_alone_whatever_the_key(open_pool: Open) -> None:
    pool = open_pool(outage_limit_s=0.1)
    answer(pool, 503, times=2)
    with pytest.raises(OutageError):
        answer(pool)
    assert len(pool.usable_keys()) == len(pool.keys)


def test_a_deadline_that_no_key_can_meet_is_refused_at_once(open_pool: Open, count: int) -> None:
    pool = open_pool("1/h")
    answer(pool, times=count)
    with pytest.raises(PermitTimeout):
        pool.admit(timeout_s=60).__enter__()


def test_a_stop_ends_a_wait(open_pool: Open, count: int) -> None:
    pool, stop = open_pool("1/h"), StopEvent()
    answer(pool, times=count)
    threading.Timer(0.1, stop.set).start()
    with pytest.raises(Stopped):
        pool.admit(stop=stop).__enter__()


def test_a_coroutine_waits_in_a_thread(open_pool: Open) -> None:
    pool = open_pool()

    async def work() -> str:
        async with pool.admit() as admission:
            admission.sending()
            admission.answered(200)
            return admission.key.label

    assert asyncio.run(work()).startswith("label")


def test_nonces_rise_by_key_over_processes_restarts_and_clock_steps(open_pool: Open) -> None:
    wall = [1_700_000_000.0]
    settings = {"ordered": True, "buffer": CLOSE, "wall": lambda: wall[0]}
    pools = [open_pool(**settings), open_pool(**settings)]
    nonces: dict[str, list[int]] = {key.label: [] for key in pools[0].keys}

    def number(pool: KeyPool) -> None:
        with pool.admit() as admission:
            nonces[admission.key.label].append(admission.nonce())
            admission.answered(200)

    for step in range(12):
        wall[0] += (100, -3600, 0)[step % 3]
        number(pools[step % 2])
    for pool in pools:
        pool.close()
    for _ in range(3):
        number(open_pool(**settings))
    for given in nonces.values():
        assert given == sorted(set(given))
    assert nonces["label 1"][0] == 1_700_000_100_000


def test_requests_of_one_key_leave_in_the_order_of_their_nonces_and_apart(open_pool: Open) -> None:
    buffer = BufferConfig(initial_ms=30, floor_ms=0, ceiling_ms=50)
    pools = [open_pool("20/s", ordered=True, buffer=buffer) for _ in range(2)]
    left: dict[str, list[tuple[int, float]]] = {key.label: [] for key in pools[0].keys}
    mutex, end = threading.Lock(), time.monotonic() + 1.0

    def work(pool: KeyPool) -> None:
        while time.monotonic() < end:
            with pool.admit() as admission:
                before = time.monotonic()
                nonce = admission.nonce()
                with mutex:
                    left[admission.key.label].append((nonce, before))
                admission.failed(neutral=True)  # an answer would show that it has arrived

    threads = [threading.Thread(target=work, args=(pools[n % 2],)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for requests in left.values():
        assert len(requests) > 3
        requests.sort()
        # `before` is stamped sooner than the departure: by a moved thread at most by some ms more.
        apart = [later - earlier for (_, earlier), (_, later) in pairwise(requests)]
        assert sorted(apart)[len(apart) // 2] >= 0.029


@pytest.mark.parametrize(
    ("keys", "rates", "named"),
    [
        ([], "20/s", "has no API key"),
        ([PoolKey("a", SecretStr("")), PoolKey("b", SecretStr("x"))], "20/s", "'a' is empty"),
        ([PoolKey("a", SecretStr("x")), PoolKey("a", SecretStr("y"))], "20/s", "labelled 'a'"),
        ([PoolKey("a", SecretStr("x")), PoolKey("b", SecretStr("x"))], "20/s", "'a' and 'b' are"),
        ([PoolKey("a", SecretStr("x"))], "none", "'a' has no rates"),
    ],
)
def test_keys_that_cannot_be_used_are_named(
    tmp_path: Path, keys: list[PoolKey], rates: str, named: str
) -> None:
    config = QuotaConfig(name="api", rates=parse_rates(rates))
    with pytest.raises(ConfigurationError, match=named):
        open_key_pool(tmp_path / "state", config, keys)
    assert not (tmp_path / "state").exists()


def test_other_rates_of_a_key_in_use_are_refused_by_its_label(open_pool: Open) -> None:
    open_pool("20/s")
    with pytest.raises(RatesConflict, match="label 1"):
        open_pool("30/s")


def test_keys_have_rates_of_their_own(place: Place) -> None:
    keys = [
        PoolKey("wide", SecretStr("w"), parse_rates("100/h")),
        PoolKey("narrow", SecretStr("n"), parse_rates("2/h")),
    ]
    config = QuotaConfig(name="api", rates=parse_rates("1/h"), burst=100)
    with open_key_pool(place, config, keys) as pool:
        assert Counter(answer(pool, times=20)) == {"wide": 18, "narrow": 2}


def test_no_key_is_shown_anywhere(
    open_pool: Open, place: Place, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    pool, said = open_pool(ordered=True, buffer=CLOSE), []
    pool.on_key_change(lambda change: said.append(repr(change)))
    said += [repr(pool), repr(pool.keys), str(pool.config)]
    with pool.admit() as admission:
        said += [repr(admission), repr(admission.key), str(admission.key)]
        admission.nonce()
        admission.answered(429)
    for key in pool.keys:
        refuse(pool, key.label)
    with pytest.raises(KeysRefused) as caught:
        answer(pool)
    said += [str(caught.value), repr(caught.value.refused)]
    with pytest.raises(RatesConflict) as conflict:
        open_pool("7/s")
    said += [str(conflict.value)]
    files = list(place.iterdir()) if isinstance(place, Path) else []
    said += [path.name for path in files]
    assert "sec-ret" not in "\n".join([*said, caplog.text])
    for path in files:
        assert b"sec-ret" not in path.read_bytes()


def test_a_refusal_for_order_widens_the_buffer_for_all_processes(open_pool: Open) -> None:
    settings = {"ordered": True, "buffer": BufferConfig(initial_ms=20, floor_ms=0)}
    pool, other = open_pool(**settings), open_pool(**settings)
    for _ in pool.keys:
        with pool.admit() as admission:
            admission.nonce()
            admission.answered(400, out_of_order=True)
    answer(other, times=len(other.keys))
    assert {gate.session.book.buffer for gate in other._keys} == {23_000_000}


def test_what_the_keys_allow_is_said_with_and_without_those_set_aside(
    open_pool: Open, count: int
) -> None:
    pool = open_pool("20/s")
    words = "1 key at 20/s" if count == 1 else "3 keys at 20/s"
    assert (pool.rates, pool.usable_rates, pool.per_s) == (words, words, 20 * count)
    assert pool.waiting_for() is None
    refuse(pool, "label 1")
    assert (pool.rates, pool.per_s) == (words, 20 * count)
    assert pool.usable_rates == f"{count - 1} of {words}"
    assert pool.usable_per_s == 20 * (count - 1)
