"""Permits: one quota shared by every thread and process of the machine, a breaker in front.

Start reading at `gate`, which is what callers see. Behind it, `bucket` is what pyrate-limiter's
`Limiter` puts requests into, `queue` orders the threads of a process, `book` books moments in
a file that all processes share (`timing` says when the next one can lie, `overtake` who goes first,
`slowdown` what a 429 does), and `breaker` is the state machine of the circuit breaker.
"""

from headrace.quota.breaker import Phase
from headrace.quota.breaker_file import BreakerChange
from headrace.quota.config import BreakerConfig, QuotaConfig
from headrace.quota.exceptions import (
    OutageError,
    PermitTimeout,
    QuotaUnavailable,
    RatesConflict,
    RatesError,
)
from headrace.quota.gate import Admission, Gate, open_gate
from headrace.quota.lanes import Lane
from headrace.quota.rates import QuotaRate, format_rates, parse_rates

__all__ = [
    "Admission",
    "BreakerChange",
    "BreakerConfig",
    "Gate",
    "Lane",
    "OutageError",
    "PermitTimeout",
    "Phase",
    "QuotaConfig",
    "QuotaRate",
    "QuotaUnavailable",
    "RatesConflict",
    "RatesError",
    "format_rates",
    "open_gate",
    "parse_rates",
]
