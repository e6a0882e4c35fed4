"""What can go wrong while asking for a permit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.errors import ConfigurationError, HeadraceError, PlaceError, StateError


class RatesError(ConfigurationError):
    """A rate cannot be read, or rates contradict each other."""

    def __init__(self, rates: object, problem: str) -> None:
        super().__init__(
            f"rate {rates!r}: {problem}",
            hint="Write rates as 15/s or 10/s,100/m; `none` lifts the quota",
        )
        self.rates = rates


class RatesConflict(ConfigurationError):
    """A quota file in use by running processes has other rates than were asked for."""

    def __init__(
        self, name: str, path: Path | str, recorded: str, wanted: str, pids: Sequence[int | str]
    ) -> None:
        users = ", ".join(map(str, pids))
        elsewhere = any(isinstance(pid, str) for pid in pids)
        super().__init__(
            f"quota {name!r} is in use with {recorded} (by process {users}), "
            f"so it cannot be opened with {wanted}: {path}",
            hint="Give all machines the same rates (HEADRACE_RATE, --rate or the block), or wait "
            "until that process has ended and two minutes have passed since its last permit"
            if elsewhere
            else "Use the same rates, or wait until that process has ended",
        )
        self.name = name
        self.path = path
        self.recorded = recorded
        self.wanted = wanted
        self.pids = pids


class QuotaUnavailable(PlaceError, StateError):
    """The shared state cannot be used: no permit is given, because permits cannot be counted."""

    said = "no permits without the quota's state {where}: {reason}"


class QuotaOutage(QuotaUnavailable):
    """The server of a shared quota does not answer; it may do so later.

    What was asked of it may have been done.
    """


class QuotaServerRefused(PlaceError, ConfigurationError):
    """The server of a shared quota will never serve us as it is, or as we are."""

    said = "quotas cannot be kept on {where}: {reason}"


class PermitTimeout(HeadraceError):
    """The deadline of a request for a permit cannot be met; nothing was booked.

    Attributes:
        timeout_s: what the caller allowed, in seconds.
        wait_s: the least wait that was foreseen when the permit was refused, in seconds.
    """

    def __init__(self, name: str, timeout_s: float, wait_s: float, cause: str = "quota") -> None:
        super().__init__(
            f"no permit of quota {name!r} within {timeout_s:g} s: "
            f"the {cause} makes it wait for at least {wait_s:.3g} s",
            hint="Allow more time, or start fewer requests at once",
        )
        self.name = name
        self.timeout_s = timeout_s
        self.wait_s = wait_s
        self.cause = cause


class OutageError(HeadraceError):
    """The circuit breaker stayed open for longer than the user wants to wait."""

    def __init__(self, name: str, waited_s: float, limit_s: float) -> None:
        super().__init__(
            f"{name} has been failing for {waited_s:.0f} s, longer than the outage limit "
            f"of {limit_s:g} s",
            hint="Run again later: what was fetched is kept. `headrace breaker status` shows "
            "the state, `headrace breaker reset` closes the breaker by hand",
        )
        self.name = name
        self.waited_s = waited_s
        self.limit_s = limit_s


class KeysRefused(ConfigurationError):
    """The server refuses every API key of a pool.

    Attributes:
        refused: the status that refused each key, by label; None where another process saw it.
        retry_s: after how many seconds the first of them is tried again.
    """

    def __init__(self, name: str, refused: Mapping[str, int | None], retry_s: float) -> None:
        keys = ", ".join(
            f"{label} ({status or 'seen by another process'})" for label, status in refused.items()
        )
        super().__init__(
            f"{name} refuses every API key: {keys}",
            hint="Check the keys and their permissions at the server; the first one is tried again "
            f"in {retry_s:.0f} s",
        )
        self.name = name
        self.refused = dict(refused)
        self.retry_s = retry_s
