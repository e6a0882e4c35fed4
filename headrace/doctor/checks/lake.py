"""Whether the lake can be listed, written, read and cleaned, each right by itself."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

from headrace.doctor.checks.state import existing
from headrace.doctor.model import Examined, Finding, ok, problem
from headrace.lake.exceptions import ObjectMissing, StoreError, StoreUnavailable
from headrace.lake.grid import recorded_grid
from headrace.lake.store import Store
from headrace.pull.sources import EXCHANGE

_CONTENT = b"written by headrace doctor, may be removed\n"


def look_at_lake(examined: Examined) -> Iterator[Finding]:
    """Probe the store with an object of its own, which is removed again."""
    store = examined.open_store()
    if "://" not in store.location and not Path(store.location).exists():
        yield _of_missing_folder(Path(store.location))
        return
    found = list(_probed(store))
    yield from found
    if not found:
        yield ok(f"{store.location}: listed, written, read and cleaned")


def _of_missing_folder(folder: Path) -> Finding:
    above = existing(folder)
    if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
        return ok(f"{folder} does not exist yet; the first run makes it")
    return problem(
        f"{folder} does not exist and cannot be made in {above}",
        "Give this user the right to write there, or another place (--lake, HEADRACE_LAKE)",
    )


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
