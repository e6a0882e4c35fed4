"""What can be wrong with a signing key and with a signed statement. None of them holds a secret."""

from __future__ import annotations

from headrace.errors import ConfigurationError, PlaceError, StateError


class KeyMissing(PlaceError, ConfigurationError):
    """There is no signing key where one was named (exit code 2).

    Attributes:
        where: file or block.
    """

    said = "there is no signing key in {where}"
    way_out = "`headrace evidence key make` makes one"


class KeyExists(ConfigurationError):
    """A key was to be made where there is one (exit code 2)."""

    def __init__(self, where: str, key_id: str) -> None:
        super().__init__(
            f"{where} holds key {key_id} already, and is not written over",
            hint="`headrace evidence key rotate` makes its successor",
        )
        self.where = where
        self.key_id = key_id


class KeyUnusable(PlaceError, ConfigurationError):
    """A key, or the list of public keys, cannot be used as it is (exit code 2).

    Attributes:
        where: file or block.
        reason: what is wrong, without any of the content.
    """

    said = "the signing key in {where} cannot be used: {reason}"


class BadStatement(PlaceError, StateError):
    """A signed statement that is not valid, or whose form is not ours.

    Attributes:
        where: file, object or block it was read from.
        reason: what is wrong.
    """

    said = "the statement in {where} is not valid: {reason}"
