"""Requests over several keys of a real server: blocked keys, secrets, kills, books that add up."""

from __future__ import annotations

import json
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.delivery.client import KeyedClient, KeyMissing
from headrace.delivery.delivery import Delivery
from headrace.delivery.journal import Journal
from headrace.delivery.model import ApiRequest, Outcome
from headrace.quota import (
    BufferConfig,
    KeyChange,
    KeysRefused,
    PoolKey,
    QuotaConfig,
    open_gate,
    open_key_pool,
    parse_rates,
)
from headrace.sim import Respond
from headrace.sim.keyed import KeyedFault, SimulatedKeyedExchange
from headrace.stopping import Ending, StopEvent
from headrace.wire.transport import Transport

#: Requests are quick here, so that a test is: 50/s for each key, and short ways.
LIMIT = 50
NEAR = "uniform:low=0,high=0.005"
GET = ApiRequest("/api/request?req_id=1")


@contextmanager
def simulated(keys: int = 3, **settings: object) -> Iterator[SimulatedKeyedExchange]:
    from headrace.sim.keyed import make_keys

    given = {"keys": make_keys(keys), "limit": LIMIT, "inbound": NEAR, "outbound": NEAR}
    with SimulatedKeyedExchange(**{**given, **settings}) as sim:
        yield sim


@dataclass
class World:
    """A delivery over all keys of a simulated server."""

    journal: Journal
    client: KeyedClient
    delivery: Delivery
    changes: list[KeyChange]


@contextmanager
def delivering(sim: SimulatedKeyedExchange, folder: Path, **options: object) -> Iterator[World]:
    keys = [PoolKey(str(place), key) for place, key in enumerate(sim.settings.keys, 1)]
    config = QuotaConfig(name="keyed", rates=parse_rates(f"{LIMIT}/s"))
    ending, changes = Ending(StopEvent()), []
    with (
        open_key_pool(folder / "quota", config, keys, ordered=True) as pool,
        Transport(sim.url) as transport,
        Journal(folder / "requests.sqlite") as journal,
    ):
        pool.on_key_change(changes.append)
        client = KeyedClient(transport, pool, stop=ending.stop)
        delivery = Delivery(
            journal,
            client,
            ending,
            break_off=lambda: None,
            **{"workers": 12, **options},  # type: ignore[arg-type]
        )
        yield World(journal, client, delivery, changes)


def test_every_request_arrives_once_with_a_rising_nonce(tmp_path: Path) -> None:
    with simulated() as sim, delivering(sim, tmp_path) as world:
        with world.delivery as delivery:
            delivery.submit([GET] * 60)
            delivery.submit([ApiRequest("/api/request", "POST", b'{"req_id": "7"}')] * 15)
            delivery.drain()
        assert world.delivery.benchmark.outcomes == {Outcome.SUCCESS: 75}
        assert sum(key.accepted for key in sim.key_stats()) == 75
        assert all(key.accepted for key in sim.key_stats())
        assert [row["key"] for row in world.client.by_key()] == ["1", "2", "3"]
        assert sum(row["successes"] for row in world.client.by_key()) == 75


@pytest.mark.parametrize(
    ("said", "outcomes", "wider"),
    [
        ("the Nonce is too small", {Outcome.SUCCESS: 2}, True),
        ("the size is too small", {Outcome.SUCCESS: 1, Outcome.GRAVEYARD: 1}, False),
    ],
)
def test_a_refused_nonce_has_requests_of_its_key_leave_further_apart(
    tmp_path: Path, said: str, outcomes: dict[Outcome, int], wider: bool
) -> None:
    with simulated(keys=1) as sim, delivering(sim, tmp_path, workers=1) as world:
        refusal = Respond(status=400, body=json.dumps({"error_code": "E400", "error_msg": said}))
        sim.add_fault(KeyedFault(action=refusal, calls=1))
        with world.delivery as delivery:
            delivery.submit([GET] * 2)
            delivery.drain()
        assert world.delivery.benchmark.outcomes == outcomes
        [path] = (tmp_path / "quota").glob("quota-*.sqlite")
        with closing(sqlite3.connect(path)) as connection:
            buffer_ns = connection.execute("SELECT buffer FROM keyed").fetchone()[0]
    assert (buffer_ns > BufferConfig().initial_ms * 1_000_000) is wider


def test_a_request_that_finds_no_connection_takes_no_nonce(tmp_path: Path) -> None:
    with simulated(keys=1) as sim:
        pass
    with delivering(sim, tmp_path, workers=1, most_tries=1) as world:
        with world.delivery as delivery:
            delivery.submit([GET])
            delivery.drain()
        assert world.delivery.benchmark.outcomes == {Outcome.GRAVEYARD: 1}
        assert world.client.stats.requests == 1
        [path] = (tmp_path / "quota").glob("quota-*.sqlite")
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT nonce FROM keyed").fetchone()[0] == 0


def test_a_key_blocked_in_mid_run_costs_no_request(tmp_path: Path) -> None:
    with simulated() as sim, delivering(sim, tmp_path) as world:
        with world.delivery as delivery:
            delivery.submit([GET] * 40)
            sim.block(2)
            delivery.submit([GET] * 100)
            delivery.drain()
        assert world.delivery.benchmark.outcomes == {Outcome.SUCCESS: 140}
        [change] = world.changes
        assert (change.label, change.usable, change.status) == ("2", False, 401)
        first, blocked, third = sim.key_stats()
        assert first.accepted + blocked.accepted + third.accepted == 140
        assert blocked.refused <= 12, "no more than were under way"


def test_when_every_key_is_refused_the_delivery_ends_and_keeps_its_requests(
    tmp_path: Path,
) -> None:
    with simulated(keys=2) as sim, delivering(sim, tmp_path) as world:
        for place in (1, 2):
            sim.block(place)
        world.delivery.submit([GET] * 30)
        with pytest.raises(KeysRefused), world.delivery:
            world.delivery.drain()
        books = world.journal.books()
        assert books.add_up
        assert books.queued + books.graveyard == 30
        assert books.queued >= 20


def test_a_server_that_wants_a_key_is_not_asked_on(tmp_path: Path) -> None:
    ending = Ending(StopEvent())
    config = QuotaConfig(name="keyless", rates=parse_rates("none"))
    with (
        simulated() as sim,
        open_gate(tmp_path / "quota", config) as gate,
        Transport(sim.url) as transport,
        Journal(tmp_path / "requests.sqlite") as journal,
    ):
        client = KeyedClient(transport, gate, stop=ending.stop)
        delivery = Delivery(journal, client, ending, break_off=lambda: None, workers=3)
        delivery.submit([GET] * 20)
        with pytest.raises(KeyMissing, match="HEADRACE_API_KEYS"), delivery:
            delivery.drain()
        assert journal.books().queued == 20


def test_faults_of_the_server_are_tried_again_and_the_books_add_up(tmp_path: Path) -> None:
    faults = ("respond,status=503,calls=2", "cut,calls=1", "html,calls=1")
    posts = [ApiRequest("/api/request", "POST", b"{}")] * 20
    with simulated(faults=faults) as sim, delivering(sim, tmp_path, workers=3) as world:
        with world.delivery as delivery:
            delivery.submit([*posts, *[GET] * 40])
            delivery.drain()
        books = world.journal.books()
        assert books.add_up
        assert (books.accepted, books.queued, books.taken) == (60, 0, 0)
        assert books.graveyard == len(world.journal.graveyard()) > 0, "posts are not repeated"
        assert all(each.unknown for each in world.journal.graveyard())
        assert books.succeeded == 60 - books.graveyard


def test_no_key_in_any_line_file_or_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    fault = "respond,status=418,calls=5"
    with simulated(faults=(fault,)) as sim, delivering(sim, tmp_path) as world:
        with world.delivery as delivery:
            delivery.submit([GET, ApiRequest("/api/request", "POST", b"{}")] * 20)
            sim.block(1)
            delivery.submit([GET] * 20)
            delivery.drain()
        said = [
            caplog.text,
            str(world.delivery.line()),
            json.dumps(world.client.by_key()),
            repr(world.changes),
            repr(world.journal.graveyard()),
        ]
        assert "ended: graveyard" in caplog.text
        for secret in (key.get_secret_value() for key in sim.settings.keys):
            assert not [text for text in said if secret in text]
            found = [
                path
                for path in tmp_path.rglob("*")
                if path.is_file() and secret.encode() in path.read_bytes()
            ]
            assert found == []


#: Hands over requests one by one and writes down how many were accepted.
SENDER = """
import sys, threading
from pathlib import Path
from pydantic import SecretStr
from headrace.delivery.client import KeyedClient
from headrace.delivery.delivery import Delivery
from headrace.delivery.journal import Journal
from headrace.delivery.model import ApiRequest
from headrace.quota import PoolKey, QuotaConfig, open_key_pool, parse_rates
from headrace.stopping import Ending, StopEvent
from headrace.wire.transport import Transport

url, folder, limit, count, offset = sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:])
keys = [PoolKey(str(n), SecretStr(f"simulated-key-{n}")) for n in (1, 2, 3)]
ending = Ending(StopEvent())
config = QuotaConfig(name="keyed", rates=parse_rates(f"{limit}/s"))
pool = open_key_pool(folder / "quota", config, keys, ordered=True)
transport, journal = Transport(url), Journal(folder / "requests.sqlite")
print("recovered", journal.recover(most_tries=5), flush=True)
client = KeyedClient(transport, pool, stop=ending.stop)
with Delivery(
    journal, client, ending, break_off=lambda: None, workers=8, capacity=40
) as delivery:
    delivery.resume(journal.kept())
    for number in range(count):
        path = f"/api/request?req_id={offset + number}"
        post = number % 2
        delivery.submit([ApiRequest(path, "POST" if post else "GET", b"{}" if post else None)])
        print("accepted", flush=True)
    delivery.drain()
journal.close()
"""


def test_the_books_add_up_after_kills_and_a_replay(tmp_path: Path) -> None:
    accepted = 0
    with simulated(faults=("slow,s=0.05",)) as sim:

        def start(count: int, offset: int) -> subprocess.Popen[str]:
            arguments = [sim.url, str(tmp_path), str(LIMIT), str(count), str(offset)]
            return subprocess.Popen(
                [sys.executable, "-c", SENDER, *arguments], stdout=subprocess.PIPE, text=True
            )

        for turn, lines in enumerate((25, 60)):
            sender = start(10_000, turn * 10_000)
            assert sender.stdout is not None
            for line in sender.stdout:
                accepted += line == "accepted\n"
                if accepted >= (turn + 1) * lines:
                    break
            os.kill(sender.pid, signal.SIGKILL)
            accepted += sender.stdout.read().count("accepted\n")
            sender.wait(30)
            with Journal(tmp_path / "requests.sqlite") as journal:
                books = journal.books()
            assert books.add_up
            # What was killed between the commit and the producer's line is at most one each time.
            assert accepted <= books.accepted <= accepted + turn + 1
            assert books.taken > 0, "something was under way"
        assert start(0, 0).wait(120) == 0
        with Journal(tmp_path / "requests.sqlite") as journal:
            books = journal.books()
            assert books.add_up
            assert (books.queued, books.taken) == (0, 0)
            assert books.graveyard > 0, "posts that were under way are not sent twice"
            assert all(each.unknown for each in journal.graveyard())
            assert journal.replay(unknown=True) == books.graveyard
        assert start(0, 0).wait(120) == 0
        with Journal(tmp_path / "requests.sqlite") as journal:
            books = journal.books()
        assert books.add_up
        assert books.accepted == books.succeeded
        assert sum(key.accepted for key in sim.key_stats()) >= books.accepted


def test_memory_and_queue_are_bounded_by_the_capacity(tmp_path: Path) -> None:
    """A producer beyond the quota: requests expire, and no more wait than there is room."""
    most = 0
    with simulated(keys=1) as sim, delivering(sim, tmp_path, capacity=30, workers=4) as world:
        over = threading.Event()

        def watch() -> None:
            nonlocal most
            while not over.wait(0.005):
                books = world.journal.books()
                most = max(most, books.queued + books.taken)

        watcher = threading.Thread(target=watch)
        watcher.start()
        with world.delivery as delivery:
            until = time.monotonic() + 3.0
            while time.monotonic() < until:
                delivery.submit([ApiRequest("/api/request", ttl_s=0.2)] * 10)
            delivery.drain()
        over.set()
        watcher.join()
        outcomes = world.delivery.benchmark.outcomes
        assert outcomes[Outcome.EXPIRED] > 0
        assert outcomes[Outcome.SUCCESS] > 0
        assert outcomes.total() == world.delivery.accepted == world.journal.books().accepted
        assert most <= 30 + 4
        assert sim.key_stats()[0].throttled == 0
