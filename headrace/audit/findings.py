"""What an audit can find, each kind with its meaning: wrong, or only worth knowing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headrace.coverage import Range


class Kind(StrEnum):
    """Kinds of findings. Those in `NOTES` leave a product complete and sound."""

    MISSING = "missing"  #: ids that no part answers for: ours to fetch
    PENDING = "pending"  #: ids that no part answers for, traded within the lag that is allowed
    HOLE = "hole"  #: ids that the exchange was asked for and does not have, a page or more
    DELISTED = "delisted"  #: the exchange lists it no longer: it was not asked for more
    ANOTHER_HISTORY = "another_history"  #: the exchange shows other trades under these ids
    UNPROVEN = "unproven"  #: a hole of a page or more that an older version took on trust
    DUPLICATE = "duplicate"  #: two parts overlap, and both hold trades
    OVERLAP = "overlap"  #: two parts answer for the same ids, at most one of them with trades
    LEFTOVER = "leftover"  #: a part that lies within a longer one
    UNREADABLE = "unreadable"  #: a file under a part's name that is no sound part
    MISNAMED = "misnamed"  #: a part whose footer answers for another range than its name
    NEWER = "newer"  #: a part written by a newer version
    FOREIGN = "foreign"  #: a file that is none of ours
    SET_ASIDE = "set_aside"  #: what an earlier healing moved away
    CHECKPOINT_AHEAD = "checkpoint_ahead"  #: it claims what the lake does not hold
    CHECKPOINT_BEHIND = "checkpoint_behind"  #: the lake holds more than it claims
    CHECKPOINT_ABSENT = "checkpoint_absent"  #: the lake holds trades, and there is none
    CHECKPOINT_UNREADABLE = "checkpoint_unreadable"  #: there is one that cannot be used
    LOST = "lost"  #: trades that the last manifest has
    CHANGED = "changed"  #: other trades than those of the last manifest
    SINCE_MANIFEST = "since_manifest"  #: what is new, merged or healed since
    MANIFEST_UNCHECKED = "manifest_unchecked"  #: no public key is here to check its signature
    MANIFEST_UNREADABLE = "manifest_unreadable"  #: there is one that cannot be used


#: What does not make a lake incomplete or unsound. A checkpoint that is behind costs nothing: every
#: run starts from the lake, and while a run works it is the rule.
NOTES = frozenset(
    {
        Kind.DELISTED,
        Kind.PENDING,
        Kind.HOLE,
        Kind.FOREIGN,
        Kind.SET_ASIDE,
        Kind.CHECKPOINT_BEHIND,
        Kind.CHECKPOINT_ABSENT,
        Kind.SINCE_MANIFEST,
        Kind.MANIFEST_UNCHECKED,
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that an audit found.

    Args:
        kind: what it is.
        product: canonical product id.
        message: what was found, in words.
        repair: what mends it, "" if nothing needs to be done.
        range: the inclusive ids that it is about, if it is about ids.
        keys: the files that it is about, as keys in the lake.
    """

    kind: Kind
    product: str
    message: str
    repair: str = ""
    range: Range | None = None
    keys: tuple[str, ...] = ()

    @property
    def wrong(self) -> bool:
        """Whether the product is incomplete or unsound because of it."""
        return self.kind not in NOTES

    def described(self) -> str:
        """The finding in one line, with its repair."""
        where = f" {self.range[0]}-{self.range[1]}" if self.range else ""
        repair = f" [{self.repair}]" if self.repair else ""
        return f"{self.product}: {self.kind.value}{where}: {self.message}{repair}"

    def as_json(self) -> dict[str, Any]:
        """Plain values for `--json`."""
        return {
            "kind": self.kind.value,
            "product": self.product,
            "wrong": self.wrong,
            "range": list(self.range) if self.range else None,
            "keys": list(self.keys),
            "message": self.message,
            "repair": self.repair or None,
        }

    def as_row(self) -> dict[str, Any]:
        """One row of the table in the UI."""
        return {
            "product": self.product,
            "kind": self.kind.value,
            "from": self.range[0] if self.range else "",
            "to": self.range[1] if self.range else "",
            "found": self.message,
            "repair": self.repair or "nothing to do",
        }
