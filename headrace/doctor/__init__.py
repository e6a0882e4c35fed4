"""Looks for what would keep a run from working, and says what to do about it.

for looked in examine(CHECKS, examined): ...     # one result per check, each within its time

A check is a name and a function from what is examined to findings (`model`). All run side by side,
each within a limit (`runner`), so that the whole takes seconds even if a server hangs. None changes
anything: files are read without the traces that SQLite leaves, and what a probe of the lake writes
it removes. A new part of the project adds its check to `CHECKS`, or hands it to `examine` beside.
"""

from headrace.doctor.checks import CHECKS
from headrace.doctor.model import Api, Check, Examined, Finding, Looked, Severity
from headrace.doctor.runner import examine

__all__ = ["CHECKS", "Api", "Check", "Examined", "Finding", "Looked", "Severity", "examine"]
