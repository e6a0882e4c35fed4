"""Where a migration stands, and which steps lead on from there."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from headrace.errors import ConfigurationError


class Phase(StrEnum):
    """See `headrace.sot.migration`."""

    OLD = "old"
    DUAL = "dual"
    NEW = "new"
    ENDED = "ended"

    @property
    def reads(self) -> str:
        """Which log is the truth."""
        return "old" if self in (Phase.OLD, Phase.DUAL) else "new"


class WrongPhase(ConfigurationError):
    """A step that does not lead on from where the migration stands; nothing was done."""

    def __init__(self, step: str, phase: Phase) -> None:
        super().__init__(
            f"the migration is in phase {phase.value!r}, from which {step!r} does not lead on",
            hint=_NEXT[phase],
        )
        self.step = step
        self.phase = phase


_NEXT: Final = {
    Phase.OLD: "Start it with: begin",
    Phase.DUAL: "Next: backfill, compare, switch",
    Phase.NEW: "Next: end, or back",
    Phase.ENDED: "It has ended: write to the new log (headrace sot write)",
}

#: From, to; a step that is repeated finds itself at its goal.
STEPS: Final = {
    "begin": (Phase.OLD, Phase.DUAL),
    "switch": (Phase.DUAL, Phase.NEW),
    "back": (Phase.NEW, Phase.DUAL),
    "end": (Phase.NEW, Phase.ENDED),
}


def target_of(step: str, phase: Phase) -> Phase:
    """Where a step leads.

    Raises:
        WrongPhase: not from here.
    """
    start, goal = STEPS[step]
    if phase not in (start, goal):
        raise WrongPhase(step, phase)
    return goal
