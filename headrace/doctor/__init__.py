"""Looks for what would keep a run from working, and names the remedy.

for result in run_checks(CHECKS, target): ...     # one result per check, each within its time

A check is a name and a function from a `Target` to findings. All run side by side, each within a
limit (`runner`), so that the whole takes seconds even if a server hangs. None changes anything:
files are read without the traces that SQLite leaves, and what a probe of the lake writes it removes
(`probes`). A new part of the project adds its check to `CHECKS`.
"""

from headrace.doctor.checks import CHECKS
from headrace.doctor.runner import Api, Check, CheckResult, Finding, Severity, Target, run_checks

__all__ = ["CHECKS", "Api", "Check", "CheckResult", "Finding", "Severity", "Target", "run_checks"]
