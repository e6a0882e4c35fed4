"""Whether leases can be had, and which of them the dead hold."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from headrace.doctor.model import Examined, Finding, ok, warning
from headrace.leases import LeaseState, Standing, open_leases


def look_at_leases(examined: Examined) -> Iterator[Finding]:
    """Every lease that was ever taken. What cannot be read is raised and reported."""
    store = open_leases(without_creation(examined.settings.lease_location))
    states = store.list()
    over = [state for state in states if state.standing in (Standing.DEAD, Standing.EXPIRED)]
    held = [state for state in states if state.standing is Standing.HELD]
    for state in over:
        yield _of_dead(state)
    for state in held:
        yield ok(f"{state.name} is held by {state.holder}")
    if not over and not held:
        yield ok(f"nobody holds one of the {len(states)} in {store.where}")


def without_creation(location: str) -> str:
    """The location without the wish to make a table that is missing: we only look."""
    if "://" not in location:
        return location
    parts = urlsplit(location)
    query = [(name, value) for name, value in parse_qsl(parts.query) if name != "create"]
    return urlunsplit(parts._replace(query=urlencode(query)))


def _of_dead(state: LeaseState) -> Finding:
    why = "is dead" if state.standing is Standing.DEAD else "has not renewed it in time"
    return warning(
        f"{state.name}: its holder ({state.holder}) {why}",
        f"The next run takes it by itself; to do so now: headrace lease release {state.name}",
    )
