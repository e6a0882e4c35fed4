"""One API key of a pool: what it is, and the quota that it is.

A key is a quota of its own in files that are named after a digest of it. Its breaker looks at what
answers say about the key, not about the server: one refusal opens it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import SecretStr

from headrace.errors import ConfigurationError
from headrace.quota.breaker import Pass, Phase
from headrace.quota.clock import MS, Clock
from headrace.quota.config import BreakerConfig, QuotaConfig
from headrace.quota.delay_spread import DelaySpread
from headrace.quota.exceptions import RatesConflict
from headrace.quota.gate import Gate
from headrace.quota.location import Place
from headrace.quota.rates import QuotaRate
from headrace.quota.session import Session

#: Statuses that refuse a key.
REFUSALS = (401, 403)


@dataclass(frozen=True, slots=True)
class PoolKey:
    """One API key.

    Args:
        label: what events, log lines and errors call it.
        secret: the key itself; never shown.
        rates: what the server allows it; None for the rates of the pool.
    """

    label: str
    secret: SecretStr
    rates: tuple[QuotaRate, ...] | None = None

    @property
    def id(self) -> str:
        """A digest of the key, which stands for it in the names of files."""
        secret = self.secret.get_secret_value().encode()
        return hashlib.blake2b(secret, digest_size=6, person=b"headrace-key").hexdigest()


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A key was set aside, or is used again; or it rests after an answer 429.

    Attributes:
        quota: the pool's name.
        label: the key's.
        usable: whether requests get it now.
        status: of the answer that refused it, 401 or 403, or 429 where it rests; None where it is
            used again.
        pause_s: after how many seconds it is tried again; 0 where it is used again. A key that
            rests is used again without another change.
    """

    quota: str
    label: str
    usable: bool
    status: int | None
    pause_s: float


KeyListener = Callable[[KeyChange], object]


def check_keys(config: QuotaConfig, keys: Sequence[PoolKey]) -> None:
    """See that each can be used beside the others.

    Raises:
        ConfigurationError: no key, an empty or a duplicate one, or one without rates.
    """
    if not keys:
        raise ConfigurationError(
            f"quota {config.name!r} has no API key", hint="Add a key, or use it without a pool"
        )
    labels: dict[str, str] = {}
    for key in keys:
        if not key.secret.get_secret_value():
            raise ConfigurationError(f"quota {config.name!r}: API key {key.label!r} is empty")
        if key.label in labels.values():
            raise ConfigurationError(
                f"quota {config.name!r}: two API keys are labelled {key.label!r}",
                hint="Give each a label of its own",
            )
        if (other := labels.setdefault(key.id, key.label)) != key.label:
            raise ConfigurationError(
                f"quota {config.name!r}: {other!r} and {key.label!r} are the same API key",
                hint="Remove one of them: the server counts both as one",
            )
        if not (config.rates if key.rates is None else key.rates):
            raise ConfigurationError(
                f"quota {config.name!r}: API key {key.label!r} has no rates",
                hint="Say what the server allows it, for example 20/s",
            )


class KeySession(Session):
    """A session whose breaker looks at what an answer says about the key, not about the server."""

    def _judge(self, given: Pass, status: int, request: int | None) -> None:
        if status in REFUSALS:
            self.breaker.failed(given, request)
        elif status >= 500:
            self.breaker.dropped(given)
        else:
            self.breaker.succeeded(given)


class KeyGate(Gate):
    """The quota of one key, and what its process expects of it.

    Attributes:
        key: the key.
        on_pause: called with the pause, in nanoseconds, that an answer 429 has begun.
        next_at: its next slot can hardly come earlier, in nanoseconds of the clock.
        used: when it last gave a permit, to spread requests over keys that are all free.
        refused: the status of the latest answer that refused it.
    """

    _session_class = KeySession

    def __init__(
        self,
        key: PoolKey,
        place: Place,
        config: QuotaConfig,
        breaker: BreakerConfig,
        clock: Clock | None,
        delays: DelaySpread,
    ) -> None:
        self.key = key
        self._quota = config.name
        self._delays = delays
        self.next_at = self.used = 0
        self.refused: int | None = None
        self.on_pause: Callable[[int], object] = lambda _: None
        rates = config.rates if key.rates is None else key.rates
        own = config.model_copy(
            update={
                "name": f"{config.name}.{key.id}",
                "rates": rates,
                "refused_pause_s": config.refused_pause_s or rates[0].interval_ms / 1000,
            }
        )
        try:
            super().__init__(place, own, breaker, None, clock)
        except RatesConflict as error:
            raise RatesConflict(
                self._title, error.path, error.recorded, error.wanted, error.pids
            ) from error
        each = max(rate.interval_ms * MS // rate.limit for rate in rates)
        self._distance = each if own.buffer is not None else 0

    @property
    def usable(self) -> bool:
        """Whether it is not set aside."""
        return self.session.breaker.state().phase is Phase.CLOSED

    @property
    def _title(self) -> str:
        return f"{self._quota}, key {self.key.label}"

    def _open(self) -> Session:
        session = super()._open()
        session.delays = self._delays  # the same server, whatever the key
        session.on_pause = lambda pause: self.on_pause(pause)
        return session

    def booked(self, at: int) -> None:
        """Note that this process booked a slot."""
        self.next_at = self.used = at
        self.next_at += self._distance

    def set_aside(self, until: int) -> None:
        """Note that it gives no permit before; it is the first to be tried then."""
        self.next_at, self.used = until, 0
