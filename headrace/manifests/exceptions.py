"""What can go wrong with manifests, each with the file that it is about."""

from __future__ import annotations

from headrace.errors import NewerVersion, PlaceError, StateError


class ManifestDamaged(PlaceError, StateError):
    """A manifest, or a list of parts that it names, is not what was written."""

    said = "the manifest {where} is damaged: {reason}"
    way_out = (
        "Bring the file back from a copy. Without one, --sign --accept REASON goes on behind it; "
        "the break stays in the chain"
    )


class ManifestTooNew(NewerVersion):
    """A newer version wrote the manifest."""

    said = "the manifest {where} has version {found}; this version reads up to {known}"


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


class NotSigned(PlaceError, StateError):
    """What would be stated is not what may be stated; nothing was signed."""

    said = "{where} was not signed: {reason}"
