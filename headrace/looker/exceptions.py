"""What can go wrong with Looker's content, each with the data that says where."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.errors import ConfigurationError, HeadraceError


class LookerError(HeadraceError):
    """The root of what is particular to Looker."""


class UnknownType(ConfigurationError):
    """A content type that Looker or this program does not have."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"no content type {name!r}", hint=f"Known: {', '.join(known)}")
        self.name = name


class ItemRefused(LookerError):
    """A body that cannot become a row: not an object, no JSON, or without a usable id.

    Attributes:
        type: content type that was asked for.
        reason: what is wrong with it.
        excerpt: the beginning of the body, safe to print.
    """

    def __init__(self, type_: str, reason: str, body: bytes) -> None:
        self.type = type_
        self.reason = reason
        self.excerpt = ascii(bytes(body[:60]))[2:-1]
        super().__init__(
            f"{type_}: a body was refused: {reason} ({self.excerpt})",
            hint="Nothing was stored for it; ask Looker for this item alone to see what it says",
        )
