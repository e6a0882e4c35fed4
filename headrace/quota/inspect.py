"""Looking at quotas and breakers from outside, without taking part in them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote, unquote

from headrace.errors import ConfigurationError
from headrace.locks import LockTimeout, locked, sqlite_holders
from headrace.quota import schema
from headrace.quota.breaker_file import Breaker
from headrace.quota.clock import Clock, MonotonicClock
from headrace.quota.config import BreakerConfig, QuotaConfig
from headrace.quota.exceptions import QuotaUnavailable
from headrace.quota.register import State
from headrace.quota.status import NO_BOOK, BookStatus, BreakerStatus, QuotaStatus
from headrace.quota.storage import BUSY_TIMEOUT_S, lock_of

_PREFIXES = ("quota-", "breaker-")
_SUFFIX = ".sqlite"


def quota_path(folder: Path, name: str) -> Path:
    """Where the quota of that name keeps its slots; one name, one file."""
    return folder / f"quota-{quote(name, safe='')}{_SUFFIX}"


def breaker_path(folder: Path, name: str) -> Path:
    """Where the breaker of that name keeps its state."""
    return folder / f"breaker-{quote(name, safe='')}{_SUFFIX}"


def known_names(folder: Path) -> list[str]:
    """The names of all quotas and breakers in a folder."""
    return sorted(
        {
            unquote(path.name.removeprefix(prefix).removesuffix(_SUFFIX))
            for prefix in _PREFIXES
            for path in folder.glob(f"{prefix}*{_SUFFIX}")
        }
    )


def inspect(folder: Path, name: str, clock: Clock | None = None) -> QuotaStatus:
    """The quota and its breaker as they stand; nothing is written.

    Raises:
        ConfigurationError: the folder knows no such quota.
        QuotaUnavailable: a file cannot be read.
    """
    clock = clock or MonotonicClock()
    now = clock.now()
    book = NO_BOOK
    check_known(folder, name)
    if quota_path(folder, name).exists():
        with _reading(quota_path(folder, name)) as connection:
            row = connection.execute(
                "SELECT boot_id, rates, blocked_until, slowdown, episode FROM state"
            ).fetchone()
            if row is None:
                raise sqlite3.DatabaseError("it holds no state")
            boot_id, recorded, *state = row
            config = _recorded_config(name, recorded)
            if boot_id == clock.boot_id:
                book = BookStatus.read(connection, config, State(*state), now)
            else:
                book = BookStatus.idle(config)
    return QuotaStatus(name, book, inspect_breaker(folder, name, clock))


def inspect_breaker(folder: Path, name: str, clock: Clock | None = None) -> BreakerStatus:
    """The breaker alone, whatever state its quota is in.

    Raises:
        ConfigurationError: the folder knows no such quota.
        QuotaUnavailable: the file cannot be read.
    """
    clock = clock or MonotonicClock()
    check_known(folder, name)
    if not breaker_path(folder, name).exists():
        return BreakerStatus.of_nothing()
    with open_breaker(folder, name, clock) as opened:
        return BreakerStatus.of(opened.state(), clock.now())


def reset_quota(folder: Path, name: str, *, bookings: bool) -> None:
    """Forget what the server's answers did to a quota.

    Args:
        folder: of the state.
        name: of the quota.
        bookings: forget the permits given as well: the next window starts empty, so the server may
            see up to twice the quota in the window at hand.

    Raises:
        ConfigurationError: the folder knows no such quota.
        QuotaUnavailable: its file cannot be read or written.
    """
    check_known(folder, name)
    path = quota_path(folder, name)
    if not path.exists():
        return
    with (
        _problems_named(path),
        locked(lock_of(path)),
        closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)) as connection,
    ):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE state SET slowdown = 1, blocked_until = 0, episode = 0")
        connection.execute(schema.REFUSALS)
        connection.execute("DELETE FROM refusals")
        if bookings:
            connection.execute(schema.FORGET)
        connection.execute("COMMIT")


@contextmanager
def open_breaker(folder: Path, name: str, clock: Clock | None = None) -> Iterator[Breaker]:
    """The breaker of that name, to look at or to reset.

    Raises:
        ConfigurationError: the folder knows no such breaker.
    """
    check_known(folder, name)
    breaker = Breaker(breaker_path(folder, name), name, BreakerConfig(), clock or MonotonicClock())
    try:
        yield breaker
    finally:
        breaker.close()


def check_known(folder: Path, name: str) -> None:
    """Refuse a name that the folder does not know."""
    known = known_names(folder)
    if name not in known:
        raise ConfigurationError(
            f"{folder} knows no quota {name!r}", hint=f"Known: {', '.join(known) or 'none'}"
        )


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    with (
        _problems_named(path),
        closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection,
    ):
        yield connection


@contextmanager
def _problems_named(path: Path) -> Iterator[None]:
    try:
        yield
    except LockTimeout as error:
        raise QuotaUnavailable(path, error.message, hint=error.hint) from error
    except (OSError, sqlite3.Error) as error:
        if (holders := sqlite_holders(path, error)) is not None:
            raise QuotaUnavailable(path, f"{error} by {holders}", hint=holders.way_out) from error
        raise QuotaUnavailable(
            path, str(error), hint="The next run that uses it sets a damaged file aside"
        ) from error


def _recorded_config(name: str, recorded: str) -> QuotaConfig:
    rates, _, burst = recorded.partition(" burst ")
    return QuotaConfig.model_validate(
        {"name": name, "rates": rates, "burst": int(burst) if burst else None}
    )
