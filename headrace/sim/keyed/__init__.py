"""A simulated exchange that counts requests by API key: to test, measure and rehearse with.

    from headrace.sim.keyed import SimulatedKeyedExchange

    with SimulatedKeyedExchange(keys=("a", "b"), limit=20) as sim:
        sim.url                                  # "http://127.0.0.1:41233"
        sim.key_stats()                          # accepted, throttled, bad_nonces, blocked by key
        sim.block(2)                             # as the server does after ten answers 429
        sim.add_fault("respond,status=503,key=1,calls=3")

What it serves and in which order it judges: `headrace.sim.keyed.simulation`.
`SimulatedKeyedExchangeProcess` is the same in a child process. Settings: see `KeyedSettings`.
Faults: `respond`, `html`, `cut`, `reset`, `hang`, `drip`, `slow`, `refuse`.
"""

from headrace.sim.keyed.settings import KeyedFault, KeyedSettings, make_keys, parse_keyed_fault
from headrace.sim.keyed.simulation import (
    PATH,
    KeyCounts,
    KeyedSimulation,
    SimulatedKeyedExchange,
    SimulatedKeyedExchangeProcess,
)

__all__ = [
    "PATH",
    "KeyCounts",
    "KeyedFault",
    "KeyedSettings",
    "KeyedSimulation",
    "SimulatedKeyedExchange",
    "SimulatedKeyedExchangeProcess",
    "make_keys",
    "parse_keyed_fault",
]
