"""What every way of running the simulated exchange has in common: on a thread, and as a process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from http.client import HTTPConnection
from typing import Any

import pytest

from headrace.sim import (
    Fault,
    Html,
    PortInUseError,
    ProductSpec,
    ServerStartError,
    SimulatedExchange,
    SimulatedExchangeProcess,
)
from headrace.sim.exceptions import ControlError, SpecError

Sim = SimulatedExchange | SimulatedExchangeProcess
NOW = datetime(2024, 1, 1, 0, 0, 5, tzinfo=UTC)
PRODUCTS = ("BTC-USD:2500", "DOGE-USD:5000,density=0.3,gaps=0.2", "NEW-USD:0")


@pytest.fixture(scope="module", params=[SimulatedExchange, SimulatedExchangeProcess])
def running(request: pytest.FixtureRequest) -> Iterator[Sim]:
    with request.param(*PRODUCTS, seed=7, now=NOW) as sim:
        yield sim


@pytest.fixture
def sim(running: Sim) -> Iterator[Sim]:
    running.reset_log()
    yield running
    running.clear_faults()


@pytest.fixture
def wire(sim: Sim) -> Iterator[HTTPConnection]:
    connection = HTTPConnection("127.0.0.1", sim.port, timeout=10)
    yield connection
    connection.close()


def get(wire: HTTPConnection, target: str) -> tuple[int, Any]:
    wire.request("GET", target, headers={"User-Agent": "tests"})
    answer = wire.getresponse()
    body = answer.read()
    is_json = answer.headers["Content-Type"].startswith("application/json")
    return answer.status, json.loads(body) if is_json else body


def walk(wire: HTTPConnection, product: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    status, page = get(wire, f"/products/{product}/trades")
    while page:
        assert status == 200
        rows += page
        status, page = get(wire, f"/products/{product}/trades?after={page[-1]['trade_id']}")
    return rows


@pytest.mark.parametrize("product", ["BTC-USD", "DOGE-USD"])
def test_a_walk_meets_the_truth(sim: Sim, wire: HTTPConnection, product: str) -> None:
    rows = walk(wire, product)[::-1]
    truth = sim.history(product).columns(1, sim.newest_id(product))
    assert [row["trade_id"] for row in rows] == truth.trade_id
    assert [row["price"] for row in rows] == truth.price
    assert [row["size"] for row in rows] == truth.size
    assert [row["side"] for row in rows] == truth.side
    times = [datetime.fromisoformat(row["time"]).timestamp() for row in rows]
    assert times == pytest.approx([at / 1e6 for at in truth.time_us], abs=1e-6)
    assert times[-1] <= NOW.timestamp()


def test_one_connection_serves_many_requests(sim: Sim, wire: HTTPConnection) -> None:
    get(wire, "/products")
    before = wire.sock
    get(wire, "/products/BTC-USD/trades")
    get(wire, "/products/NOPE-USD")
    assert wire.sock is before


def test_the_cursor_headers(wire: HTTPConnection) -> None:
    wire.request("GET", "/products/BTC-USD/trades?after=1001", headers={"User-Agent": "tests"})
    answer = wire.getresponse()
    answer.read()
    assert (answer.headers["CB-BEFORE"], answer.headers["CB-AFTER"]) == ("1000", "1")
    wire.request("GET", "/products/NEW-USD/trades", headers={"User-Agent": "tests"})
    answer = wire.getresponse()
    assert answer.read() == b"[]"
    assert "CB-BEFORE" not in answer.headers
    assert "CB-AFTER" not in answer.headers


def test_a_request_without_user_agent_is_refused(wire: HTTPConnection) -> None:
    wire.request("GET", "/products")
    answer = wire.getresponse()
    assert answer.status == 400
    assert json.loads(answer.read()) == {"message": "User-Agent header is required."}


def test_faults_come_and_go(sim: Sim, wire: HTTPConnection) -> None:
    first = sim.add_fault(Fault(action=Html(status=522), product="BTC-USD", calls=2))
    second = sim.add_fault('respond,status=500,body={"message":"no"},product=DOGE-USD')
    statuses = [get(wire, "/products/BTC-USD/trades")[0] for _ in range(3)]
    assert statuses == [522, 522, 200]
    assert get(wire, "/products/DOGE-USD/trades") == (500, {"message": "no"})
    assert sim.stats()["fault_hits"] == {str(first): 2, str(second): 1}
    sim.remove_fault(second)
    assert get(wire, "/products/DOGE-USD/trades")[0] == 200


def test_requests_are_counted(sim: Sim, wire: HTTPConnection) -> None:
    get(wire, "/products/BTC-USD/trades?after=501")
    get(wire, "/products/NOPE-USD/trades")
    stats = sim.stats((1.0, 60.0))
    assert stats["requests"] == 2
    assert stats["by_status"] == {"200": 1, "404": 1}
    assert stats["by_product"] == {"BTC-USD": 1, "NOPE-USD": 1}
    assert stats["most_in_window"]["60.0"] == 2
    first, second = sim.arrivals()
    assert (first.target, first.subject.cursor, first.status) == (
        "/products/BTC-USD/trades?after=501", 501, 200,
    )  # fmt: skip
    assert first.counted_s == first.arrived_s <= second.arrived_s


def test_an_empty_product_gets_its_first_trades(sim: Sim, wire: HTTPConnection) -> None:
    sim.put_product(ProductSpec(id="FRESH-USD", trades=0))
    assert get(wire, "/products/FRESH-USD/trades") == (200, [])
    sim.grow("FRESH-USD", 3)
    assert sim.newest_id("FRESH-USD") == 3
    assert [row["trade_id"] for row in walk(wire, "FRESH-USD")] == [3, 2, 1]


def test_a_product_is_delisted(sim: Sim, wire: HTTPConnection) -> None:
    spec = ProductSpec(id="OLD-USD", trades=5)
    sim.put_product(spec)
    assert len(walk(wire, "OLD-USD")) == 5
    sim.put_product(spec.model_copy(update={"listing": "delisted"}))
    assert get(wire, "/products/OLD-USD/trades") == (200, [])
    sim.put_product(spec.model_copy(update={"listing": "unknown"}))
    assert get(wire, "/products/OLD-USD/trades")[0] == 404


def test_rows_are_put_by_hand(sim: Sim, wire: HTTPConnection) -> None:
    strange = {"trade_id": 4, "price": "1E-8", "size": "NaN", "side": "sell", "time": "x"}
    sim.put_product(ProductSpec(id="ODD-USD", trades=4))
    sim.replace_rows("ODD-USD", {4: strange, 3: None, 2: '{"trade_id": "2"}'})
    rows = walk(wire, "ODD-USD")
    assert rows[:2] == [strange, {"trade_id": "2"}]
    assert rows[2]["trade_id"] == 1
    sim.serve_rows("ODD-USD", {9: strange})
    assert get(wire, "/products/ODD-USD/trades") == (200, [strange])


def test_what_the_control_endpoint_cannot_read_is_refused(sim: Sim, wire: HTTPConnection) -> None:
    assert get(wire, "/_sim/nothing")[0] == 404
    assert get(wire, "/_sim/stats?windows=x")[0] == 400
    wire.request("POST", "/_sim/faults", '{"action":{"kind":"explode"}}')
    answer = wire.getresponse()
    assert answer.status == 400
    assert "explode" in json.loads(answer.read())["message"]
    with pytest.raises((SpecError, ControlError), match="NOPE-USD"):
        sim.grow("NOPE-USD", 1)


def test_the_control_endpoint_tells_what_is_served(sim: Sim, wire: HTTPConnection) -> None:
    status, settings = get(wire, "/_sim/settings")
    assert status == 200
    assert (settings["seed"], settings["now_s"]) == (7, int(NOW.timestamp()))
    assert [product["id"] for product in settings["products"]] == ["BTC-USD", "DOGE-USD", "NEW-USD"]
    assert "keys" not in settings
    assert sim.stats()["requests"] == 0


def test_a_taken_port_is_named(sim: Sim) -> None:
    refusal = f"port {sim.port} of 127.0.0.1 is taken"
    with (
        pytest.raises((PortInUseError, ServerStartError), match=refusal),
        type(sim)("BTC-USD:5", port=sim.port),
    ):
        pytest.fail("two servers share a port")
