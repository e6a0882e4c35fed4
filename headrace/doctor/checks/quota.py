"""Where quotas and circuit breakers are kept: files of this machine, or a server of many."""

from __future__ import annotations

import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from headrace.amounts import counted
from headrace.doctor.probes import damage, reading
from headrace.doctor.runner import Finding, Target, ok, problem, warning
from headrace.errors import ConfigurationError
from headrace.pull.request import BLOCK_PREFIX
from headrace.quota import QuotaConfig, format_rates, parse_rates
from headrace.quota.breaker import Phase
from headrace.quota.clock import NS, MonotonicClock
from headrace.quota.location import QuotaServer
from headrace.quota.register import VERSION, State
from headrace.quota.shared import open_keeper
from headrace.quota.shared.server import Keeper
from headrace.quota.status import (
    BookStatus,
    QuotaStatus,
    breaker_path,
    inspect,
    inspect_breaker,
    known_names,
    quota_path,
)
from headrace.wire.transport import quota_name as named_quota

_ASKED = 20
#: A booking that takes longer than this holds up a quota of many permits a second.
_SLOW_S = 0.02
#: Further off than this, a clock is wrong for leases and ages; quotas do not go by it.
_FAR_S = 5.0


def check_quotas(target: Target) -> Iterator[Finding]:
    """Every quota that was ever used here, or on the server that machines share."""
    place = target.quotas()
    if isinstance(place, QuotaServer):
        yield from check_server(place)
        names = known_names(place)
        if not names:
            yield ok(f"no quota was used yet on {place}")
        for name in names:
            config, status = shared_quota(place, name)
            yield from _of_book(target, name, config, status.book)
        return
    folder = place
    names = [name for name in known_names(folder) if quota_path(folder, name).exists()]
    if not names:
        yield ok(f"no quota was used yet in {folder}")
    for name in names:
        path = quota_path(folder, name)
        try:
            yield from _of_file(target, name, path)
        except sqlite3.Error as error:
            yield _damaged(path, str(error))


def recorded_config(name: str, path: Path) -> QuotaConfig:
    """The quota as its file says.

    Raises:
        sqlite3.Error: the file does not read.
    """
    with reading(path) as connection:
        recorded = connection.execute("SELECT rates FROM state").fetchone()[0]
    return _config(name, recorded)


def quota_name(base_url: str) -> str:
    """The name of the quota of an exchange; "" if it is not an address (`settings` says so)."""
    try:
        return named_quota(base_url)
    except ConfigurationError:
        return ""


def _of_file(target: Target, name: str, path: Path) -> Iterator[Finding]:
    if stat.S_IMODE(path.stat().st_mode) & 0o022:
        yield problem(f"others may write in {path}", f"chmod 600 {path}")
    with reading(path) as connection:
        if wrong := damage(connection):
            yield _damaged(path, wrong)
            return
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            yield problem(
                f"{path} has version {version}, this headrace knows up to {VERSION}",
                "Use the newer headrace, or move the file away while no run is under way",
            )
            return
        boot_id, recorded, *state = connection.execute(
            "SELECT boot_id, rates, blocked_until, slowdown, episode FROM state"
        ).fetchone()
        clock, config = MonotonicClock(), _config(name, recorded)
        book = BookStatus.idle(config)
        if boot_id == clock.boot_id:
            book = BookStatus.read(connection, config, State(*state), clock.now())
    yield from _of_book(target, name, config, book)


def _of_book(target: Target, name: str, config: QuotaConfig, book: BookStatus) -> Iterator[Finding]:
    if book.processes and name == quota_name(target.base_url):
        wanted = _wanted(target.rate)
        if wanted is not None and wanted != format_rates(config.rates):
            pids = ", ".join(
                f"{process.pid} on {process.machine}" if process.machine else str(process.pid)
                for process in book.processes
            )
            yield problem(
                f"{name} is in use with {config.signature} (process {pids}), HEADRACE_RATE says "
                f"{wanted}: a run would be refused",
                "Set the same rate, or wait for that process to end",
            )
    if book.blocked_s:
        yield warning(
            f"{name} sent a Retry-After: requests wait {book.blocked_s:.0f} s more",
            "Runs wait by themselves; headrace quota reset forgets it",
        )
    if book.slowdown > 1:
        yield warning(
            f"{name} answered 429: requests go at {100 / book.slowdown:.0f} % of its rates",
            "It ends as requests succeed; if it returns, another client uses the same quota",
        )
    else:
        yield ok(
            f"{name}: {config.signature or 'no limit'}, {counted(len(book.processes), 'process')}"
        )


def _damaged(path: Path, wrong: str) -> Finding:
    return warning(
        f"{path} is damaged ({wrong})",
        "The next run sets it aside and waits for one window; to do so now, move it away while "
        "no run is under way",
    )


def _config(name: str, recorded: str) -> QuotaConfig:
    rates = recorded.partition(" burst ")[0]
    return QuotaConfig.model_validate({"name": name, "rates": rates if rates else ()})


def _wanted(rate: str) -> str | None:
    """The rates that a run would ask for; None where they are a block's, or cannot be read."""
    if rate.startswith(BLOCK_PREFIX):
        return None
    try:
        return format_rates(parse_rates(rate))
    except ConfigurationError:
        return None


def check_breakers(target: Target) -> Iterator[Finding]:
    """Every breaker that was ever used here, or on the server that machines share."""
    place = target.quotas()
    if isinstance(place, QuotaServer):
        names = known_names(place)
        if not names:
            yield ok(f"no breaker was used yet on {place}")
        for name in names:
            state = inspect_breaker(place, name)
            yield _judged(name, state.phase, state.failures, state.reopens_in_s)
        return
    folder = place
    names = [name for name in known_names(folder) if breaker_path(folder, name).exists()]
    if not names:
        yield ok(f"no breaker was used yet in {folder}")
    for name in names:
        path = breaker_path(folder, name)
        try:
            yield _of_breaker(name, path)
        except (sqlite3.Error, ValueError) as error:
            yield warning(
                f"{path} is damaged ({error})",
                "The next run sets it aside and begins with a closed breaker",
            )


def phase_of(folder: Path, name: str) -> Phase:
    """The phase of one breaker; closed if it was never used.

    Raises:
        sqlite3.Error, ValueError: its file does not read.
    """
    path = breaker_path(folder, name)
    if not path.exists():
        return Phase.CLOSED
    with reading(path) as connection:
        return Phase(connection.execute("SELECT phase FROM breaker").fetchone()[0])


def _of_breaker(name: str, path: Path) -> Finding:
    with reading(path) as connection:
        if wrong := damage(connection):
            raise sqlite3.DatabaseError(wrong)
        boot_id, text, failures, reopens = connection.execute(
            "SELECT boot_id, phase, failures, reopens FROM breaker"
        ).fetchone()
    clock = MonotonicClock()
    left_s = (reopens - clock.now()) / NS if boot_id == clock.boot_id else 0.0
    return _judged(name, Phase(text), failures, left_s)


def _judged(name: str, phase: Phase, failures: int, left_s: float) -> Finding:
    if phase is Phase.OPEN:
        after = f"after {counted(failures, 'failure')} in a row"
        if left_s <= 0:
            return warning(
                f"{name}: the breaker is open until the next request, a probe, {after}",
                f"The probe decides; once it works again: headrace breaker reset {name}",
            )
        return problem(
            f"{name}: the breaker is open for another {left_s:.0f} s, {after}",
            f"Wait, or once it works again: headrace breaker reset {name}",
        )
    if phase is Phase.HALF_OPEN:
        return warning(
            f"{name}: the breaker is half-open, one probe at a time after an outage",
            "It closes by itself after some that succeed",
        )
    return ok(f"{name}: closed")


def check_server(server: QuotaServer) -> Iterator[Finding]:
    """What it is, how fast it answers, and how far its clock is from ours.

    Raises:
        HeadraceError: it cannot be reached, or it cannot keep quotas.
    """
    with closing(open_keeper(server)) as keeper:
        latency_s = _latency_s(keeper)
        ahead_s = keeper.clock.ahead / 1e9
        what = f"quotas and breakers are on {server}: {keeper.software}"
    words = f"{what}, answers within {latency_s * 1e3:.1f} ms"
    if latency_s > _SLOW_S:
        yield warning(words, "Each permit waits for an answer: name a server that is nearer")
    else:
        yield ok(words)
    clock = f"its clock is {abs(ahead_s):.3f} s {'ahead of' if ahead_s > 0 else 'behind'} ours"
    if abs(ahead_s) > _FAR_S:
        yield warning(
            f"{server}: {clock}; quotas go by it and are exact all the same",
            "Set the clocks of both by NTP",
        )
    else:
        yield ok(f"{server}: {clock}; quotas go by its clock")


def _latency_s(keeper: Keeper) -> float:
    """The median of some questions."""
    keeper.connect()
    took = []
    for _ in range(_ASKED):
        began = time.monotonic()
        keeper.read("")
        took.append(time.monotonic() - began)
    return sorted(took)[_ASKED // 2]


def shared_quota(server: QuotaServer, name: str) -> tuple[QuotaConfig, QuotaStatus]:
    """A quota that is kept there, and its rates.

    Raises:
        HeadraceError: it cannot be read.
    """
    status = inspect(server, name)
    rates = tuple(window.rate for window in status.book.windows)
    return QuotaConfig(name=name, rates=rates), status
