"""What a check is given, what it reports, and how all run side by side, each within its time."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.lake.store import Store
from headrace.quota.location import Place
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
        source: where that is configured, for people.
        headers: of every request: the login, for servers that want one.
        managed: it is the server that `headrace up` keeps.
    """

    url: str
    source: str
    headers: Mapping[str, str] = field(default_factory=dict)
    managed: bool = False


@dataclass(frozen=True)
class Target:
    """What is checked: settings, places, and the machine.

    Args:
        settings: of this process.
        lake: a folder, s3://bucket/prefix, or block:NAME.
        base_url: address of the exchange.
        rate: what it allows.
        api: None where none is configured and none is up.
        database: of the managed Prefect server, whether or not it exists.
        open_store: the store of the lake, untouched; may raise any `HeadraceError`.
        find_quotas: where quotas live, if a block says it; may raise any `HeadraceError`.
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
    find_quotas: Callable[[], Place] | None = None
    now: Callable[[], float] = time.time
    disk_free: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free

    def quotas(self) -> Place:
        """Where quotas and breakers live.

        Raises:
            HeadraceError: what the settings say cannot be used.
        """
        return self.find_quotas() if self.find_quotas else self.settings.quota_place


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Args:
        name: one word, as in the report.
        run: looks, and gives at least one finding. May raise a `HeadraceError`,
            which is reported as a problem with its hint as the remedy.
    """

    name: str
    run: Callable[[Target], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The findings of one check, and how long it took."""

    check: str
    findings: tuple[Finding, ...]
    elapsed_s: float

    @property
    def severity(self) -> Severity:
        """That of its worst finding."""
        return max((finding.severity for finding in self.findings), key=list(Severity).index)


#: No check may take longer; what it asks has shorter limits of its own.
LIMIT_S = 12.0


def run_checks(
    checks: Sequence[Check], target: Target, *, limit_s: float = LIMIT_S
) -> Iterator[CheckResult]:
    """Run every check; what each found, in the order of the checks.

    Args:
        checks: the checks.
        target: what they look at.
        limit_s: seconds after which a check is given up and reported as one that hangs. Its
            thread is a daemon: it does not keep the process.
    """
    deadline = time.monotonic() + limit_s
    running = [_RunningCheck(check, target) for check in checks]
    for each in running:
        each.start()
    for each in running:
        each.join(max(0.0, deadline - time.monotonic()))
        yield each.result(limit_s)


class _RunningCheck(threading.Thread):
    """One check under way."""

    def __init__(self, check: Check, target: Target) -> None:
        super().__init__(name=f"headrace-doctor-{check.name}", daemon=True)
        self._check = check
        self._target = target
        self._began = time.monotonic()
        self._result: CheckResult | None = None

    def run(self) -> None:
        """Run the check."""
        findings = tuple(_findings(self._check, self._target))
        elapsed_s = time.monotonic() - self._began
        self._result = CheckResult(self._check.name, findings or (ok("nothing found"),), elapsed_s)

    def result(self, limit_s: float) -> CheckResult:
        """What was found, or that there was no answer in time."""
        if self._result is not None:
            return self._result
        hung = problem(
            f"no answer within {limit_s:g} s",
            "What it asks hangs: a server, a network share or a lock; see what it is with py-spy",
        )
        return CheckResult(self._check.name, (hung,), limit_s)


def _findings(check: Check, target: Target) -> list[Finding]:
    """The findings of a check, up to the error that ended it."""
    found: list[Finding] = []
    try:
        for finding in check.run(target):
            found.append(finding)  # noqa: PERF402 - what was said before an error counts
    except HeadraceError as error:
        found.append(problem(error.message, error.hint or "Correct that, then try again"))
    except Exception as error:  # noqa: BLE001 - one check that fails must not hide the others
        said = f"the check itself failed: {type(error).__name__}: {error}"
        found.append(problem(said, "Report this with the output of headrace doctor --json"))
    return found
