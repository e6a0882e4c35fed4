"""Permits: one quota shared by every thread and process of the machine, a breaker in front.

Read the modules in this order. The way of one request:

1. `gate`: what callers see. `Gate.admit` waits for the breaker, then for a permit; an `Admission`
   reports what became of the request.
2. `session`: one process's part in a quota: its queue, its book, its view of the breaker.
3. `request`, `bucket`: a request for a permit, on its way through pyrate-limiter's `Limiter`.
4. `queue`: the threads of one process go to the book one at a time; `lanes` says which goes first.
5. `bookings`: books moments (`slot`) in a file that all processes share; the proof that no window
   holds more than its limit is here. `timing` says when the next slot can lie.
6. `breaker`: the state machine of the circuit breaker; `breaker_file` shares its state.

`key_pool` has a gate for each of several API keys (`keys`); a request gets the key whose slot comes
first. `delay_spread` is what answers show of arrivals, where requests of a key carry nonces.

What happens after the answer, and around it: `feedback` (headers and answers 429, and how they slow
a quota down), `register` (the processes and their rates), `status` (reading all of it from
outside), `selftest`. Below: `config` and `rates`, `clock`, `processes`, and `storage`, a SQLite
file that survives kills, damage and deletion. `location` says where all this lies; `shared` is a
quota on a server of several machines, whose absence `server_outage` waits out.
"""

from typing import TYPE_CHECKING

from headrace.lazy_imports import deferred

if TYPE_CHECKING:
    from headrace.quota.breaker import Phase
    from headrace.quota.breaker_file import BreakerChange
    from headrace.quota.config import BreakerConfig, BufferConfig, QuotaConfig
    from headrace.quota.exceptions import (
        KeysRefused,
        OutageError,
        PermitTimeout,
        QuotaUnavailable,
        RatesConflict,
        RatesError,
    )
    from headrace.quota.feedback import SlowdownChange
    from headrace.quota.gate import Admission, Gate, open_gate
    from headrace.quota.key_pool import KeyAdmission, KeyPool, open_key_pool
    from headrace.quota.keys import KeyChange, PoolKey
    from headrace.quota.lanes import Lane
    from headrace.quota.rates import QuotaRate, format_rates, parse_rates

__all__ = [
    "Admission",
    "BreakerChange",
    "BreakerConfig",
    "BufferConfig",
    "Gate",
    "KeyAdmission",
    "KeyChange",
    "KeyPool",
    "KeysRefused",
    "Lane",
    "OutageError",
    "PermitTimeout",
    "Phase",
    "PoolKey",
    "QuotaConfig",
    "QuotaRate",
    "QuotaUnavailable",
    "RatesConflict",
    "RatesError",
    "SlowdownChange",
    "format_rates",
    "open_gate",
    "open_key_pool",
    "parse_rates",
]

__getattr__ = deferred(
    __name__,
    {
        "breaker": "Phase",
        "breaker_file": "BreakerChange",
        "config": "BreakerConfig BufferConfig QuotaConfig",
        "exceptions": (
            "KeysRefused OutageError PermitTimeout QuotaUnavailable RatesConflict RatesError"
        ),
        "feedback": "SlowdownChange",
        "gate": "Admission Gate open_gate",
        "key_pool": "KeyAdmission KeyPool open_key_pool",
        "keys": "KeyChange PoolKey",
        "lanes": "Lane",
        "rates": "QuotaRate format_rates parse_rates",
    },
)
