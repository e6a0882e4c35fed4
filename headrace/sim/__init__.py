"""Simulated servers on real sockets: a Coinbase Exchange to test, measure and rehearse with.

    from headrace.sim import Fault, Html, SimulatedExchange, SimulatedExchangeProcess

    with SimulatedExchange("BTC-USD:2500", "DOGE-USD:5000,density=0.3", seed=7) as sim:
        sim.url                                    # "http://127.0.0.1:41233"
        sim.history("BTC-USD").columns(1, 2500)    # the truth: trade_id, time_us, price, size, side

`SimulatedExchange` runs on a thread of this process, `SimulatedExchangeProcess` in a child (for
benches: no shared interpreter lock); both take the same arguments and have the same methods:

| method | what for |
|---|---|
| `url`, `port`, `settings` | where it is, what it is |
| `history(product)` | `History`: the rows that ought to be served (below) |
| `newest_id(product)` | the highest id that is out now |
| `grow(product, n)` | n more ids |
| `put_product(spec)` | list a product, or delist it by its `listing` |
| `replace_rows(product, {id: row})` | literal rows (dict, JSON text, or `None` for a hole) |
| `serve_rows(product, {id: row})` | a product of literal rows alone |
| `add_fault(fault)` → number, `remove_fault(number)`, `clear_faults()` | `Fault` or its text |
| `stats(windows_s=(1.0,))` | requests, by_status, by_product, throttled, most_in_window, … |
| `arrivals()` | `Arrival`s: number, arrived_s, counted_s, target, subject, status, fault |
| `reset_log()` | forget the requests so far |

Keyword arguments (fields of `ExchangeSettings`): `seed`, `now` (aware datetime of the newest
trades), `latency` (`LogNormal(p50=3, p95=5)` or `"lognormal:p50=3,p95=5"`), `limits`
(`TokenBucket(rate_per_s=10, burst=15, retry_after="seconds")`, `SlidingWindow(requests=10,
per_s=1)`), `faults`, `keys` (`ApiKey`), `key_limits` (of each key), `port`; in process also
`clock`.

`History`: `exists(id)`, `trade(id)`, `ids(lo, hi)`, `count(lo, hi)`, `columns(lo, hi)`, bounds
inclusive. It does not end at the newest id: ask `newest_id` for where the tape stands. Rows follow
from (seed, spec, now, id) alone.

Faults: an action and its conditions, for example `Fault(action=Html(status=522), calls=3)`,
`Fault(action=Cut(how="chunked"), product="BTC-USD", from_call=2, calls=1)`,
`"respond,status=503,probability=0.01"`, `Fault(action=Refuse(), between_s=(5, 9))`. Actions:
`Respond`, `Html`, `Malformed`, `Cut`, `Reset`, `Hang`, `Drip`, `Stuck`, `Stale`, `Empty`,
`Refuse`.

The same exists over HTTP below `/_sim/` (see `headrace.sim.control`).
"""

from headrace.sim.actions import (
    Cut,
    Drip,
    Empty,
    Hang,
    Html,
    Malformed,
    Refuse,
    Reset,
    Respond,
    Stale,
    Stuck,
)
from headrace.sim.arrivals import Arrival, most_in_window
from headrace.sim.catalogue import DEFAULT_CATALOGUE, ProductSpec, parse_product
from headrace.sim.exceptions import ControlError, PortInUseError, ServerStartError, SpecError
from headrace.sim.faults import Fault, parse_fault
from headrace.sim.history import Columns, History, SimTrade
from headrace.sim.latency import Constant, LatencySource, LogNormal, Uniform, parse_latency
from headrace.sim.limits import SlidingWindow, TokenBucket
from headrace.sim.settings import ExchangeSettings
from headrace.sim.signing import ApiKey
from headrace.sim.simulation import SimulatedExchange, SimulatedExchangeProcess

__all__ = [
    "DEFAULT_CATALOGUE",
    "ApiKey",
    "Arrival",
    "Columns",
    "Constant",
    "ControlError",
    "Cut",
    "Drip",
    "Empty",
    "ExchangeSettings",
    "Fault",
    "Hang",
    "History",
    "Html",
    "LatencySource",
    "LogNormal",
    "Malformed",
    "PortInUseError",
    "ProductSpec",
    "Refuse",
    "Reset",
    "Respond",
    "ServerStartError",
    "SimTrade",
    "SimulatedExchange",
    "SimulatedExchangeProcess",
    "SlidingWindow",
    "SpecError",
    "Stale",
    "Stuck",
    "TokenBucket",
    "Uniform",
    "most_in_window",
    "parse_fault",
    "parse_latency",
    "parse_product",
]
