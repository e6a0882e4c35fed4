"""The lake, and the store of leases."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from headrace.amounts import counted
from headrace.doctor.checks.machine import of_missing
from headrace.doctor.checks.network import SET_IT, TOO_FAR_S
from headrace.doctor.runner import Finding, Target, ok, problem, warning
from headrace.lake.exceptions import ObjectMissing, StoreError, StoreUnavailable
from headrace.lake.grid import recorded_grid
from headrace.lake.store import Store
from headrace.leases import LeaseState, LeaseStatus, LeaseStore, open_leases
from headrace.pull.ledger import EXCHANGE

_CONTENT = b"written by headrace doctor, may be removed\n"


def check_lake(target: Target) -> Iterator[Finding]:
    """Probe the store with an object of its own, which is removed again."""
    store = target.open_store()
    if "://" not in store.location and not Path(store.location).exists():
        yield of_missing(Path(store.location), "run", _ELSEWHERE)
        return
    found = list(_probed(store))
    yield from found
    if not found:
        yield ok(f"{store.location}: listed, written, read and cleaned")


def _probed(store: Store) -> Iterator[Finding]:
    # A name of its own, so that a run's probe at this moment is not in the way.
    key = f"_headrace_doctor_{secrets.token_hex(8)}"
    steps: tuple[tuple[str, Callable[[], str]], ...] = (
        ("listed", lambda: _list(store)),
        ("written", lambda: _write(store, key)),
        ("read", lambda: _read(store, key)),
        ("cleaned", lambda: _clean(store, key)),
        ("read", lambda: _grid(store)),
    )
    done: set[str] = set()
    failed: set[str] = set()
    for what, step in steps:
        # A folder that cannot be written has nothing to remove, and one failure to read is enough.
        needless = what == "cleaned" and "written" in failed and "://" not in store.location
        if needless or what in failed:
            continue
        try:
            wrong, remedy = step(), _RIGHT
        except ObjectMissing as error:
            # Not written, so not there: the right to read is there all the same.
            wrong, remedy = (str(error) if "written" in done else ""), _RIGHT
        except StoreUnavailable as error:
            yield problem(f"{store.location} does not answer: {error.reason}", _REACH)
            return
        except StoreError as error:
            wrong, remedy = error.message, error.hint or _RIGHT
            if what == "cleaned" and "written" in done:
                wrong += f"; {store.place(key)} is left there, remove it"
        if wrong:
            failed.add(what)
            yield problem(f"{store.location} cannot be {what}: {wrong}", remedy)
        else:
            done.add(what)


_ELSEWHERE = "Give this user the right to write there, or another place (--lake, HEADRACE_LAKE)"
_REACH = "Is the endpoint right (AWS_ENDPOINT_URL_S3, or the Lake block), and the network up?"
_RIGHT = "Give this user, or these credentials, the rights to list, write, read and delete there"


def _list(store: Store) -> str:
    next(iter(store.entries("")), None)
    return ""


def _write(store: Store, key: str) -> str:
    store.put(key, _CONTENT)
    return ""


def _clean(store: Store, key: str) -> str:
    store.delete(key)
    return ""


def _read(store: Store, key: str) -> str:
    return "" if store.get(key) == _CONTENT else "it does not give back what was written"


def _grid(store: Store) -> str:
    """Read the recorded grid, if there is one; a damaged one is raised."""
    recorded_grid(store, EXCHANGE)
    return ""


def check_leases(target: Target) -> Iterator[Finding]:
    """The store, and every lease in it. What cannot be read is raised and reported."""
    location = target.settings.lease_location
    store = open_leases(without_creation(location))
    if "://" in location:
        yield _of_store(store)
    states = store.list()
    over = [state for state in states if state.status in (LeaseStatus.DEAD, LeaseStatus.EXPIRED)]
    held = [state for state in states if state.status is LeaseStatus.HELD]
    for state in over:
        yield _of_dead(state)
    for state in held:
        yield ok(f"{state.name} is held by {state.holder}")
    if not over and not held:
        yield ok(f"none of the {counted(len(states), 'lease')} in {store.where} is held")


def _of_store(store: LeaseStore) -> Finding:
    """How the store of several machines answers; what makes it unfit for leases is raised."""
    store.prove()
    measured = store.measure()
    words = f"{store.where} answers in {measured.took_s * 1000:.0f} ms"
    if measured.ahead is None:
        return ok(words)
    ahead_s = measured.ahead.total_seconds()
    words += f"; this machine's clock is {ahead_s:+.0f} s from its"
    if abs(ahead_s) > TOO_FAR_S:
        return warning(f"{words}, by which leases go: ages here are wrong", SET_IT)
    return ok(words)


def without_creation(location: str) -> str:
    """The location without `create`, which makes a table that is missing: a check makes nothing."""
    if "://" not in location:
        return location
    parts = urlsplit(location)
    query = [(name, value) for name, value in parse_qsl(parts.query) if name != "create"]
    return urlunsplit(parts._replace(query=urlencode(query)))


def _of_dead(state: LeaseState) -> Finding:
    why = "is dead" if state.status is LeaseStatus.DEAD else "has not renewed it in time"
    return warning(
        f"{state.name}: its holder ({state.holder}) {why}",
        f"The next run takes it by itself; to do so now: headrace lease release {state.name}",
    )
