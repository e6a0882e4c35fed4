"""When to try again, how often, and how long to wait in between.

Every attempt takes a permit of its own, so waiting here only spreads attempts in time; keeping the
quota is the gate's business, and so is a `Retry-After`, which the gate imposes on everybody.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from headrace.wire.exceptions import BadAnswer, Throttled, TransientError


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Attempts per kind of failure, and the pauses between them (full jitter, doubling).

    A page that is throttled is queued again up to `throttled_attempts` times. Failures of the
    server may have an end, wrong answers seldom do: those get fewer attempts.
    """

    throttled_attempts: int = 10
    failed_attempts: int = 6
    bad_answer_attempts: int = 4
    first_pause_s: float = 0.5
    longest_pause_s: float = 30.0

    def allowed(self, error: TransientError) -> int:
        """How many failures of this kind one request may see in all."""
        if isinstance(error, Throttled):
            return self.throttled_attempts
        if isinstance(error, BadAnswer):
            return self.bad_answer_attempts
        return self.failed_attempts

    def pause_s(self, failures: int) -> float:
        """How long to wait after the n-th failure (n from 1)."""
        ceiling = min(self.longest_pause_s, self.first_pause_s * 2.0 ** (failures - 1))
        return random.uniform(0.5, 1.0) * ceiling
