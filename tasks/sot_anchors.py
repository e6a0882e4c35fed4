"""What a run anchors the log with, and what it holds the log against."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from blocks.resolve import signing_key_of
from headrace.errors import ConfigurationError
from headrace.evidence.keys import KeyList, SigningKey, signing_key
from headrace.settings import load_settings
from headrace.sot.anchors.compare import Comparison, Kept, PlaceReport, keep_head, stamped_bytes
from headrace.sot.anchors.exceptions import StampRefused
from headrace.sot.anchors.places import AnchorPlace, open_places
from headrace.sot.anchors.timestamps import (
    Stamp,
    check_authority,
    check_stamp,
    load_roots,
    request_stamp,
)
from headrace.sot.requests import AnchorRequest, VerifyRequest
from headrace.sot.store import SotStore
from headrace.sot.tree.log_head import LogHead, sign_head
from headrace.stopping import StopEvent

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


@dataclass(frozen=True, slots=True)
class Anchoring:
    """All that a head needs to be signed, stamped and kept. Checked before any work is spent."""

    places: list[AnchorPlace]
    key: SigningKey
    authority: str
    roots: tuple[Certificate, ...]

    @classmethod
    def of(cls, request: AnchorRequest) -> Anchoring:
        """As the request and the settings say.

        Raises:
            ConfigurationError: there is no anchor, no key, or one that cannot be used.
        """
        places = _places_of(request.anchors)
        if not places:
            raise ConfigurationError(
                "no anchor is named", hint="--anchors, or HEADRACE_ANCHORS: a file, git: or s3://"
            )
        key = signing_key(signing_key_of(request.key))
        authority = request.tsa or load_settings().tsa
        if authority:
            check_authority(authority)
        return cls(places, key, authority, _roots_of(request.tsa_ca))

    def anchor(self, store: SotStore, stop: StopEvent) -> tuple[LogHead, str, list[Kept]]:
        """Sign, stamp and keep the head of a log; with it the outcome of its stamp and places."""
        head = sign_head(store, self.key, now=datetime.now(UTC))
        stamp, words = self._stamped(head, stop)
        return head, words, keep_head(head, stamp, self.places)

    def _stamped(self, head: LogHead, stop: StopEvent) -> tuple[Stamp | None, str]:
        """A head is kept without a time stamp, too."""
        if not self.authority:
            return None, ""
        message = stamped_bytes(head)
        try:
            stamp = request_stamp(self.authority, message, stop=stop)
            if not self.roots:
                return stamp, f"stamped by {self.authority}, which was not checked (--tsa-ca)"
            at = check_stamp(stamp, message, self.roots, now=datetime.now(UTC))
        except StampRefused as error:
            return None, f"without a time stamp: {error}"
        return stamp, f"stamped by {self.authority} at {at:%Y-%m-%dT%H:%M:%SZ}"


@dataclass(frozen=True, slots=True)
class Witnesses:
    """The anchors that a log is held against, and whose signatures count."""

    places: list[AnchorPlace]
    keys: KeyList
    roots: tuple[Certificate, ...]

    @classmethod
    def of(cls, request: VerifyRequest) -> Witnesses | None:
        """As the request and the settings say; None if there are no anchors.

        Raises:
            ConfigurationError: they cannot be used, or there is no list of public keys.
        """
        places = _places_of(request.anchors, there=True)
        if not places:
            return None
        place = signing_key_of(request.key)
        keys = place.public()
        if not keys.keys:
            raise ConfigurationError(
                f"there is no list of public keys in {place.where}, to check anchors by",
                hint="Name the key that signed them: --key",
            )
        if request.trust:
            if request.trust not in keys:
                raise ConfigurationError(
                    f"key {request.trust} is not in the list of public keys in {place.where}",
                    hint="headrace evidence key show lists them",
                )
            keys = keys.trusted(request.trust)
        return cls(places, keys, _roots_of(request.tsa_ca))

    def asked_about(self, store: SotStore) -> list[PlaceReport]:
        """What they say of a log."""
        return Comparison(store, self.keys, self.roots).hold_against(self.places)


def _places_of(option: str, *, there: bool = False) -> list[AnchorPlace]:
    return open_places(option or load_settings().anchors, there=there)


def _roots_of(option: str) -> tuple[Certificate, ...]:
    path = option or load_settings().tsa_ca
    return load_roots(path) if path else ()
