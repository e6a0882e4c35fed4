"""How often a request to Looker is tried: as for an exchange, with less patience for two kinds."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.exchange.exceptions import RequestTimeout, TransientError
from headrace.exchange.retrying import RetryPolicy
from headrace.looker.client.exceptions import AppError


@dataclass(frozen=True, slots=True)
class LookerRetryPolicy(RetryPolicy):
    """Attempts per kind of failure.

    A time-out of minutes is seldom mended by another one, and an error that Looker's own code
    raises about one item mostly comes again.
    """

    failed_attempts: int = 4
    app_error_attempts: int = 3
    timeout_attempts: int = 2

    def allowed(self, error: TransientError) -> int:
        """How many failures of this kind one request may see in all."""
        if isinstance(error, AppError):
            return self.app_error_attempts
        if isinstance(error, RequestTimeout):
            return self.timeout_attempts
        # Not super(): slots give the class another cell than the one it was compiled in.
        return RetryPolicy.allowed(self, error)
