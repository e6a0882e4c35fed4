"""What can go wrong with copies of a vault."""

from __future__ import annotations

from pathlib import Path

from headrace.errors import ConfigurationError, StateError


class SnapshotsUnusable(ConfigurationError):
    """The place for snapshots cannot be worked with; found before any work was spent."""

    def __init__(self, location: str, reason: str, *, hint: str = "") -> None:
        super().__init__(f"snapshots cannot be kept in {location}: {reason}", hint=hint)
        self.location = location
        self.reason = reason


class NoSuchSnapshot(ConfigurationError):
    """No snapshot of that name, or none at all."""

    def __init__(self, location: str, name: str, known: str) -> None:
        super().__init__(f"{location} holds no snapshot {name!r}", hint=f"Known: {known}")
        self.location = location
        self.name = name


class SnapshotDamaged(StateError):
    """What the store returns is not what was put there, by its checksum."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(
            f"the snapshot {place} is damaged: {reason}",
            hint="Nothing was put in the place of a vault; fetch an older one "
            "(`headrace looker snapshot list`)",
        )
        self.place = place
        self.reason = reason


class TargetTaken(ConfigurationError):
    """There is a file where the fetched vault should be."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"there is a file at {path} already",
            hint="Move it (with its -wal and -shm) away, or name another place with --vault",
        )
        self.path = path
