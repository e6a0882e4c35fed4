"""What can be wrong with a place of anchors and with a time stamp."""

from __future__ import annotations

from headrace.errors import ConfigurationError, HeadraceError, PlaceError


class AnchorsMisconfigured(PlaceError, ConfigurationError):
    """A place of anchors that cannot work (exit code 2).

    Attributes:
        where: the place.
        reason: why not.
    """

    said = "{where} cannot keep anchors: {reason}"
    way_out = "Name a file, git:FOLDER or s3://bucket/prefix"


class AnchorsMissing(PlaceError, ConfigurationError):
    """A file of anchors that is to be checked, and does not exist (exit code 2).

    Attributes:
        where: the file.
    """

    said = "there are no anchors in {where}: the file does not exist"
    way_out = (
        "Correct the name; headrace sot anchor, or headrace audit --sign, makes the file with the "
        "first head"
    )


class AnchorsUnavailable(HeadraceError):
    """A place of anchors that does not answer, or does not take a head.

    Attributes:
        where: the place.
        action: what was asked of it.
        reason: what it said.
    """

    def __init__(self, where: str, action: str, reason: str, *, hint: str = "") -> None:
        super().__init__(f"{action} anchors in {where} failed: {reason}", hint=hint)
        self.where = where
        self.action = action
        self.reason = reason


class StampRefused(PlaceError):
    """A time-stamp authority gave no stamp, or one that is not valid.

    Attributes:
        where: the authority, or where the stamp was kept.
        reason: what is wrong.
    """

    said = "the time stamp of {where} is not valid: {reason}"
