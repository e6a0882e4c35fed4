"""Whether a server is left alone at the moment."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from headrace.doctor.databases import damage, reading
from headrace.doctor.model import Examined, Finding, ok, problem, warning
from headrace.quota.breaker import Phase
from headrace.quota.clock import NS, MonotonicClock
from headrace.quota.inspect import breaker_path, known_names


def look_at_breakers(examined: Examined) -> Iterator[Finding]:
    """Every breaker that was ever used here."""
    folder = examined.settings.quota_folder
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
    phase, clock = Phase(text), MonotonicClock()
    if phase is Phase.OPEN:
        left_s = (reopens - clock.now()) / NS if boot_id == clock.boot_id else 0.0
        when = f"for another {left_s:.0f} s" if left_s > 0 else "until the next request, a probe"
        return problem(
            f"{name} is left alone {when}: it failed {failures} times in a row",
            f"Wait, or once it works again: headrace breaker reset {name}",
        )
    if phase is Phase.HALF_OPEN:
        return warning(
            f"{name} is tried with one request at a time after an outage",
            "It closes by itself after some that go well",
        )
    return ok(f"{name}: closed")
