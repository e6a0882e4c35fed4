"""Put heads into anchors, and hold a log against all that were put there."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from headrace.amounts import counted
from headrace.errors import HeadraceError
from headrace.evidence.exceptions import BadStatement
from headrace.evidence.keys import KeyList
from headrace.evidence.statements import canonical
from headrace.sot.anchors.exceptions import AnchorsUnavailable, StampRefused
from headrace.sot.anchors.places import AnchorPlace
from headrace.sot.anchors.timestamps import Stamp, check_stamp, stamp_of
from headrace.sot.exceptions import DamagedLog
from headrace.sot.store import SotStore
from headrace.sot.tree.log_head import LogHead, SymbolHead, read_log_head
from headrace.sot.tree.symbol_tree import SymbolTree

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a head in one place: how it is protected, or why it is not there."""

    where: str
    protection: str = ""
    failure: str = ""


def stamped_bytes(head: LogHead) -> bytes:
    """What a time stamp of a head is over: the canonical JSON of its envelope."""
    return canonical(head.statement.as_dict())


def anchor_line(head: LogHead, stamp: Stamp | None) -> bytes:
    """A head as anchors keep it."""
    fields: dict[str, Any] = json.loads(head.as_line())
    if stamp is not None:
        fields["stamp"] = stamp.as_dict()
    return canonical(fields) + b"\n"


def keep_head(head: LogHead, stamp: Stamp | None, places: Iterable[AnchorPlace]) -> list[Kept]:
    """Put a head into every place that takes it."""
    line = anchor_line(head, stamp)
    root = base64.b64decode(head.statement.payload["root"]).hex()
    name = f"{head.time.replace(':', '')}-{root[:16]}"
    found = []
    for place in places:
        try:
            found.append(Kept(place.where, protection=place.append(line, name)))
        except AnchorsUnavailable as error:
            found.append(Kept(place.where, failure=str(error)))
    return found


@dataclass(slots=True)
class PlaceReport:
    """What holding the log against one place has shown.

    Attributes:
        heads: how many fit, from the first on.
        misfit: the first that does not, and why; nothing behind it was looked at.
        unreachable: why the place could not be read.
        stamped: how many of them bear a time stamp that was checked.
        last: when the last that fits was signed, as the signer says.
    """

    where: str
    heads: int = 0
    misfit: str = ""
    unreachable: str = ""
    stamped: int = 0
    last: str = ""

    @property
    def empty(self) -> bool:
        """Whether it was read and holds no head, so that it shows nothing of the log."""
        return not (self.heads or self.misfit or self.unreachable)

    @property
    def words(self) -> str:
        """The same in a few words."""
        if self.unreachable:
            return f"not held against {self.where} ({self.unreachable})"
        if self.empty:
            return f"{self.where} holds no head"
        fit = f"fits {counted(self.heads, 'head')} in {self.where}"
        if self.last:
            fit += f", the last of {self.last}"
        return f"{fit}, and not the next one" if self.misfit else fit


@dataclass(slots=True)
class Comparison:
    """Holds one log against anchors.

    Args:
        store: the log.
        keys: whose signatures count.
        roots: certificates of time-stamp authorities; without any, stamps are not looked at.
        now: today, for words.
    """

    store: SotStore
    keys: KeyList
    roots: tuple[Certificate, ...] = ()
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    _fitting: set[SymbolHead] = field(default_factory=set)
    _trees: dict[int, SymbolTree] = field(default_factory=dict)

    def hold_against(self, places: Sequence[AnchorPlace]) -> list[PlaceReport]:
        """Compare with every head of every place, up to the first of a place that does not fit."""
        return [self._compare(place) for place in places]

    def _compare(self, place: AnchorPlace) -> PlaceReport:
        report = PlaceReport(place.where)
        try:
            for where, line in place.lines():
                try:
                    report.stamped += self._check(where, line)
                except (BadStatement, StampRefused, DamagedLog) as misfit:
                    report.misfit = f"{where}: {misfit.message}"
                    return report
                report.heads += 1
                report.last = read_log_head(line, where=where).time
        except AnchorsUnavailable as error:
            report.unreachable = str(error)
        return report

    def _check(self, where: str, line: bytes) -> bool:
        """Return, with whether its stamp was checked, if the log fits one head.

        Raises:
            BadStatement, StampRefused: the head is not what was put there.
            DamagedLog: the log is not what was signed.
        """
        head = read_log_head(line, where=where)
        self.keys.check(head.statement, where=where)
        stamp = json.loads(line).get("stamp")
        stamped = bool(stamp is not None and self.roots)
        if stamped:
            given = stamp_of(stamp, where=where)
            check_stamp(given, stamped_bytes(head), self.roots, now=self.now)
        self._fits(head)
        return stamped

    def _fits(self, head: LogHead) -> None:
        store_id = self.store.store_id()
        if head.store_id != store_id:
            raise DamagedLog(
                self.store.location,
                f"the head of {head.time} is about log {head.store_id}, this one is {store_id}",
            )
        for symbol in head.symbols:
            if symbol in self._fitting:
                continue
            reason = self._misfit(symbol)
            if reason:
                raise DamagedLog(
                    self.store.location,
                    f"{reason}; signed on {head.time}",
                    symbol_id=symbol.symbol_id,
                )
            self._fitting.add(symbol)

    def _misfit(self, signed: SymbolHead) -> str:
        """Why a chain is not the one that was signed; "" if it is."""
        try:
            tree = self._trees.get(signed.symbol_id)
            if tree is None:
                tree = self._trees[signed.symbol_id] = SymbolTree(self.store, signed.symbol_id)
            if tree.first_seq != signed.first_seq:
                return f"it began with seq {signed.first_seq}, now with {tree.first_seq}"
            if tree.size < signed.size:
                return f"it had {signed.size} records, {tree.size} are left"
            if tree.root(signed.size) != signed.root:
                return f"its first {signed.size} records are not those that were signed"
        except HeadraceError as error:
            return f"it had {signed.size} records, which cannot be read ({error.message})"
        return ""
