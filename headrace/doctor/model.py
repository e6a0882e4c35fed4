"""What a check is given, and what it says."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from headrace.lake.store import Store
from headrace.settings import Settings


class Severity(StrEnum):
    """How bad it is."""

    OK = "ok"  #: as it should be
    WARNING = "warning"  #: runs work, but not as well or as safely as they should
    PROBLEM = "problem"  #: keeps a run from working


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found.

    Args:
        severity: how bad it is.
        what: what was found, and about what (path, host, name).
        remedy: what to do; empty where nothing needs doing.
    """

    severity: Severity
    what: str
    remedy: str = ""


def ok(what: str) -> Finding:
    """As it should be."""
    return Finding(Severity.OK, what)


def warning(what: str, remedy: str) -> Finding:
    """Runs work all the same."""
    return Finding(Severity.WARNING, what, remedy)


def problem(what: str, remedy: str) -> Finding:
    """No run will work until that is mended."""
    return Finding(Severity.PROBLEM, what, remedy)


@dataclass(frozen=True, slots=True)
class Api:
    """The Prefect API that commands would use.

    Args:
        url: as in `PREFECT_API_URL`.
        source: who said so, for people.
        headers: that a request needs, for servers that ask who it is.
        managed: it is the server that `headrace up` keeps.
    """

    url: str
    source: str
    headers: Mapping[str, str] = field(default_factory=dict)
    managed: bool = False


@dataclass(frozen=True)
class Examined:
    """What is examined: settings, places, and the machine.

    Args:
        settings: of this process.
        lake: a folder, s3://bucket/prefix, or block:NAME.
        base_url: address of the exchange.
        rate: what it allows.
        api: None where none is configured and none is up.
        database: of the managed Prefect server, whether or not it exists.
        open_store: the store of the lake, untouched; may raise any `HeadraceError`.
        now: Unix seconds.
        disk_free: free bytes of the file system of a path.
    """

    settings: Settings
    lake: str
    base_url: str
    rate: str
    api: Api | None
    database: Path
    open_store: Callable[[], Store]
    now: Callable[[], float] = time.time
    disk_free: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Args:
        name: one word, as in the report.
        look: looks, and says what it found; at least one finding. May raise a `HeadraceError`,
            which is reported as a problem with its hint as the remedy.
    """

    name: str
    look: Callable[[Examined], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Looked:
    """What became of one check."""

    check: str
    findings: tuple[Finding, ...]
    elapsed_s: float

    @property
    def severity(self) -> Severity:
        """That of its worst finding."""
        return max((finding.severity for finding in self.findings), key=list(Severity).index)
