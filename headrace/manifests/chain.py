"""A chain of signed statements in a store: numbered files, each with the digest of the one before.

    {prefix}000000001.json, {prefix}000000002.json, ...

A file is written on the condition that there is none of its number, and never again. So of two
processes that sign at once one comes first, and the other one's statement follows it. Killed before
the file is there, nothing has happened; after, it is complete.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from headrace.evidence.exceptions import BadStatement
from headrace.evidence.keys import KeyList, SigningKey
from headrace.evidence.statements import read_envelope
from headrace.kill_points import kill_point
from headrace.lake.exceptions import ObjectMissing
from headrace.lake.store import Store
from headrace.manifests.exceptions import (
    ManifestDamaged,
    ManifestMissing,
    ManifestsContended,
    ManifestTooNew,
)
from headrace.manifests.statement import Statement, from_payload

_NAME = re.compile(r"([0-9]{9,18})\.json")
_TRIES = 20

#: A payload as the bytes of a signed file.
Seal = Callable[[dict[str, Any]], bytes]
#: The payload of a signed file that is at some place; raises `BadStatement` for one that is none,
#: or whose signature is not that of a key that is trusted.
Open = Callable[[bytes, str], dict[str, Any]]


def sealing(key: SigningKey) -> Seal:
    """Signs with a key."""
    return lambda payload: key.sign(payload).as_line()


def opening(keys: KeyList) -> Open:
    """Reads what these keys have signed; without any, what anybody has: nothing is trusted then."""

    def read(content: bytes, place: str) -> dict[str, Any]:
        statement = read_envelope(content, where=place)
        if keys.keys:
            keys.check(statement, where=place)
        return statement.payload

    return read


@dataclass(frozen=True, slots=True)
class Link:
    """One statement: its number, where it is, the SHA-256 of its file, and what it says."""

    sequence: int
    key: str
    sha256: str
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SignedChain:
    """The statements of `type` under `prefix`, which ends with a slash.

    Args:
        store: where they are.
        prefix: of their keys.
        kind: what their payloads say that they are, with the version that is known at its end, as
            in `headrace.lake-head.v1`.
        open: see `Open`.
    """

    store: Store
    prefix: str
    kind: str
    open: Open

    def key(self, sequence: int) -> str:
        """Where a number's file is."""
        return f"{self.prefix}{sequence:09d}.json"

    def length(self) -> int:
        """The highest number there is; 0 if there is none."""
        names = (entry.key.removeprefix(self.prefix) for entry in self.store.entries(self.prefix))
        return max((int(found[1]) for name in names if (found := _NAME.fullmatch(name))), default=0)

    def last(self) -> Link | None:
        """The statement with the highest number, its signature checked.

        Raises:
            ManifestDamaged, ManifestTooNew: it cannot be used.
            StoreError: the store failed.
        """
        length = self.length()
        return self.read(length) if length else None

    def read(self, sequence: int) -> Link:
        """One statement.

        Raises:
            ManifestMissing: there is none of this number.
            ManifestDamaged, ManifestTooNew, StoreError: as `last`.
        """
        key = self.key(sequence)
        content = self._content(sequence)
        place = self.store.place(key)
        try:
            payload = self.open(content, place)
        except BadStatement as error:
            raise ManifestDamaged(place, error.reason) from error
        kind, version = _split(payload["type"])
        known_kind, known = _split(self.kind)
        if kind != known_kind or version < 1:
            raise ManifestDamaged(place, f"it is no {self.kind}")
        if version > known:
            raise ManifestTooNew(place, found=version, known=known)
        if payload.get("sequence") != sequence:
            raise ManifestDamaged(place, f"it has the number {payload.get('sequence')}")
        return Link(sequence, key, hashlib.sha256(content).hexdigest(), payload)

    def stated(self, link: Link, form: type[Statement]) -> Statement:
        """What a link states.

        Raises:
            ManifestDamaged: it lacks a field, or has another value in it.
        """
        try:
            return from_payload(link.payload, form)
        except msgspec.ValidationError as error:
            raise ManifestDamaged(self.store.place(link.key), str(error)) from error

    def append(self, make: Callable[[int, str | None], dict[str, Any]], seal: Seal) -> Link:
        """Put a statement at the end; durable when it returns.

        Args:
            make: makes the payload from its number and the digest of the file before (None: it is
                the first). Called again where another process was first.
            seal: signs it.

        Raises:
            ManifestsContended: others were first every time.
            StoreError: the store failed.
        """
        for _ in range(_TRIES):
            length = self.length()
            before = hashlib.sha256(self._content(length)).hexdigest() if length else None
            payload = make(length + 1, before)
            content = seal(payload)
            kill_point("before-manifest")
            key = self.key(length + 1)
            if self.store.put_if_absent(key, content):
                kill_point("after-manifest")
                return Link(length + 1, key, hashlib.sha256(content).hexdigest(), payload)
        raise ManifestsContended(self.store.place(self.prefix), _TRIES)

    def _content(self, sequence: int) -> bytes:
        try:
            return self.store.get(self.key(sequence))
        except ObjectMissing as error:
            place = self.store.place(self.key(sequence))
            raise ManifestMissing(place, self.length()) from error


def _split(kind: str) -> tuple[str, int]:
    """A payload's type without its version, and the version; 0 if it has none."""
    name, _, version = kind.rpartition(".v")
    return name, int(version) if version.isascii() and version.isdigit() else 0
