"""What can go wrong with manifests, each with the file that it is about."""

from __future__ import annotations

from headrace.errors import StateError


class ManifestDamaged(StateError):
    """A manifest, or a list of parts that it names, is not what was written."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(
            f"the manifest {place} is damaged: {reason}",
            hint="Bring the file back from a copy. Without one, --sign --accept REASON goes on "
            "behind it; the break stays in the chain",
        )
        self.place = place
        self.reason = reason


class ManifestTooNew(StateError):
    """A newer version wrote the manifest."""

    def __init__(self, place: str, *, found: int, known: int) -> None:
        super().__init__(
            f"the manifest {place} has version {found}; this version reads up to {known}",
            hint="Upgrade headrace",
        )
        self.place = place
        self.found = found
        self.known = known


class ManifestMissing(StateError):
    """A number of a chain has no file, although later ones have."""

    def __init__(self, place: str, last: int) -> None:
        super().__init__(
            f"the manifest {place} is missing, although the chain goes on to {last}",
            hint="Bring the file back from a copy",
        )
        self.place = place


class ManifestsContended(StateError):
    """Other processes put manifests into the chain faster than this one could."""

    def __init__(self, place: str, tries: int) -> None:
        super().__init__(
            f"{place}: {tries} times another process was first with the next manifest",
            hint="Sign again when fewer audits sign",
        )
        self.place = place


class NotSigned(StateError):
    """What would be stated is not what may be stated; nothing was signed."""

    def __init__(self, product: str, reason: str, *, hint: str) -> None:
        super().__init__(f"{product} was not signed: {reason}", hint=hint)
        self.product = product
        self.reason = reason
