"""All checks side by side, each within its time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence

from headrace.doctor.model import Check, Examined, Finding, Looked, ok, problem
from headrace.errors import HeadraceError

#: No check may take longer; what it asks has shorter limits of its own.
LIMIT_S = 12.0


def examine(
    checks: Sequence[Check], examined: Examined, *, limit_s: float = LIMIT_S
) -> Iterator[Looked]:
    """Run every check; what each found, in the order of the checks.

    Args:
        checks: what to look at.
        examined: where.
        limit_s: seconds after which a check is given up and reported as one that hangs. Its
            thread is a daemon: it does not keep the process.
    """
    deadline = time.monotonic() + limit_s
    patients = [_Patient(check, examined) for check in checks]
    for patient in patients:
        patient.start()
    for patient in patients:
        patient.join(max(0.0, deadline - time.monotonic()))
        yield patient.result(limit_s)


class _Patient(threading.Thread):
    """One check under way."""

    def __init__(self, check: Check, examined: Examined) -> None:
        super().__init__(name=f"headrace-doctor-{check.name}", daemon=True)
        self._check = check
        self._examined = examined
        self._began = time.monotonic()
        self._looked: Looked | None = None

    def run(self) -> None:
        """Look."""
        findings = tuple(_findings(self._check, self._examined))
        elapsed_s = time.monotonic() - self._began
        self._looked = Looked(self._check.name, findings or (ok("nothing to say"),), elapsed_s)

    def result(self, limit_s: float) -> Looked:
        """What was found, or that there was no answer in time."""
        if self._looked is not None:
            return self._looked
        hung = problem(
            f"no answer within {limit_s:g} s",
            "What it asks hangs: a server, a network share or a lock; see what it is with py-spy",
        )
        return Looked(self._check.name, (hung,), limit_s)


def _findings(check: Check, examined: Examined) -> list[Finding]:
    """What a check says, up to where it broke off."""
    found: list[Finding] = []
    try:
        for finding in check.look(examined):
            found.append(finding)  # noqa: PERF402 - what was said before an error counts
    except HeadraceError as error:
        found.append(problem(error.message, error.hint or "Mend that, then look again"))
    except Exception as error:  # noqa: BLE001 - one check that fails must not hide the others
        said = f"the check itself failed: {type(error).__name__}: {error}"
        found.append(problem(said, "Report this with the output of headrace doctor --json"))
    return found
