"""What the lines of this thread are about at this moment: run, product, chunk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

#: In this order, in every line.
FIELDS = ("run", "product", "chunk")

_NOW: ContextVar[Mapping[str, str]] = ContextVar("headrace_about", default=MappingProxyType({}))
_RUNS: list[str] = []


@contextmanager
def about(**fields: str) -> Iterator[None]:
    """Say what the lines of a `with` block are about, on top of what is known.

    A copied context takes it along, as Prefect's task runners do; a bare thread does not.
    """
    token = _NOW.set({**_NOW.get(), **fields})
    try:
        yield
    finally:
        _NOW.reset(token)


@contextmanager
def run_everywhere(run: str) -> Iterator[None]:
    """The same for a run and for threads that know no context, such as those that renew leases.

    They are taken to work for this run as long as it is the only one of the process.
    """
    _RUNS.append(run)
    try:
        with about(run=run):
            yield
    finally:
        _RUNS.remove(run)


def about_now() -> dict[str, str]:
    """The fields that are known."""
    known = dict(_NOW.get())
    if "run" not in known and len(_RUNS) == 1:
        known["run"] = _RUNS[0]
    return known
