"""Signing keys: Ed25519, with ids, a list of public keys, and rotation (docs/evidence.md).

A key's id is the beginning of the SHA-256 of its public half, so a list of public keys cannot give
an id to another key. A successor is endorsed by the key before it: who trusts the first key can
follow to the newest, and a key that was only put into the list stands out.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from headrace.evidence.exceptions import BadStatement, KeyExists, KeyMissing, KeyUnusable
from headrace.evidence.statements import Envelope, canonical, envelope_of
from headrace.extras import require

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

#: `type` of the statement by which a key endorses its successor.
ENDORSEMENT: Final = "headrace.key.v1"
_ID_BYTES: Final = 16


def key_id_of(public_key: bytes) -> str:
    """The id of a public key of 32 bytes: the first 16 bytes of its SHA-256, as hex."""
    return hashlib.sha256(public_key).digest()[:_ID_BYTES].hex()


def moment(now: datetime) -> str:
    """A time as statements write it: UTC, in whole seconds."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class SigningKey:
    """The private half of a key. Neither `repr` nor any error shows it."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public_key: bytes = private.public_key().public_bytes_raw()
        self.key_id = key_id_of(self.public_key)

    def __repr__(self) -> str:
        return f"SigningKey({self.key_id})"

    @classmethod
    def make(cls) -> SigningKey:
        """A new one, from the system's random numbers."""
        require("evidence")
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_pem(cls, pem: bytes, *, where: str) -> SigningKey:
        """The key of a PKCS #8 PEM without a password, as `openssl genpkey` writes it too.

        Raises:
            KeyUnusable: it is something else.
            ExtraMissing: the extra `evidence` is not installed.
        """
        require("evidence")
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            found = load_pem_private_key(pem, password=None)
        except TypeError:
            raise KeyUnusable(where, "it is locked by a password") from None
        except (ValueError, UnsupportedAlgorithm):
            # What the parser says may quote the content.
            raise KeyUnusable(where, "it is no private key in PEM") from None
        if not isinstance(found, Ed25519PrivateKey):
            raise KeyUnusable(where, "it is no Ed25519 key")
        return cls(found)

    def to_pem(self) -> bytes:
        """The secret, as a PKCS #8 PEM."""
        from cryptography.hazmat.primitives import serialization

        return self._private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    def sign(self, payload: dict[str, Any]) -> Envelope:
        """The signed statement.

        Raises:
            ValueError: the payload has no canonical text.
        """
        return Envelope(payload, self.key_id, self._private.sign(canonical(payload)))


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The public half of a key.

    Attributes:
        public_key: 32 bytes.
        made_at: when it was made, as its maker says.
        endorsed: the statement by which the key before it names it; None for a first one.
    """

    public_key: bytes
    made_at: str
    endorsed: Envelope | None = None

    @property
    def key_id(self) -> str:
        """Its id."""
        return key_id_of(self.public_key)

    def as_dict(self) -> dict[str, Any]:
        """Its form in the list."""
        return {
            "key_id": self.key_id,
            "public_key": base64.b64encode(self.public_key).decode(),
            "made_at": self.made_at,
            "endorsed": self.endorsed.as_dict() if self.endorsed else None,
        }


class KeyList:
    """Public keys, in the order in which they were made; enough to check every statement."""

    def __init__(self, keys: Iterable[PublicKey] = ()) -> None:
        self.keys = tuple(keys)
        self._by_id = {key.key_id: key for key in self.keys}

    def __contains__(self, key_id: object) -> bool:
        return key_id in self._by_id

    def with_key(self, key: PublicKey) -> KeyList:
        """The same with one more at the end."""
        return KeyList((*self.keys, key))

    def as_dict(self) -> dict[str, Any]:
        """Its JSON form."""
        return {"version": 1, "keys": [key.as_dict() for key in self.keys]}

    def check(self, statement: Envelope, *, where: str) -> None:
        """Return if a key of the list has signed this.

        Raises:
            BadStatement: the key is not in the list, or the signature is not its own.
        """
        key = self._by_id.get(statement.key_id)
        if key is None:
            raise BadStatement(where, f"key {statement.key_id} is not in the list of public keys")
        if not signed_by(statement, key.public_key):
            raise BadStatement(where, f"the signature is not that of key {statement.key_id}")

    def trusted(self, first: str) -> KeyList:
        """The key `first` and all that were endorsed from it on, directly or by successors."""
        reached = [self._by_id[first]] if first in self._by_id else []
        known = {first}
        for key in self.keys:
            if key.endorsed is not None and key.endorsed.key_id in known - {key.key_id}:
                reached.append(key)
                known.add(key.key_id)
        return KeyList(reached)


def signed_by(statement: Envelope, public_key: bytes) -> bool:
    """Whether the private half of this key has signed the statement."""
    require("evidence")
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        verifier = Ed25519PublicKey.from_public_bytes(public_key)
        verifier.verify(statement.signature, canonical(statement.payload))
    except (InvalidSignature, ValueError):
        return False
    return True


def read_key_list(stored: bytes | str, *, where: str) -> KeyList:
    """A list of public keys from its JSON text, with every endorsement checked.

    Raises:
        KeyUnusable: it is no such list, or an endorsement in it is not valid.
    """
    try:
        found = json.loads(stored)
        if found["version"] != 1:
            raise KeyUnusable(
                where,
                f"its list of public keys has version {found['version']}, this version knows 1",
                hint="Upgrade this installation of headrace",
            )
        keys = KeyList(_read_key(key, where) for key in found["keys"])
        for key in keys.keys:
            if key.endorsed is not None:
                keys.check(key.endorsed, where=where)
    except (ValueError, TypeError, KeyError, RecursionError, BadStatement) as error:
        raise KeyUnusable(where, f"its list of public keys is damaged: {error}") from error
    return keys


def _read_key(found: dict[str, Any], where: str) -> PublicKey:
    public_key = base64.b64decode(found["public_key"], validate=True)
    endorsed = found["endorsed"]
    key = PublicKey(
        public_key,
        str(found["made_at"]),
        None if endorsed is None else envelope_of(endorsed, where=where),
    )
    if len(public_key) != 32 or found["key_id"] != key.key_id:
        raise ValueError(f"{found['key_id']} is not the id of the key beside it")
    if key.endorsed is not None and key.endorsed.payload != _endorsement(key):
        raise ValueError(f"the endorsement of {key.key_id} is about something else")
    return key


def _endorsement(key: PublicKey) -> dict[str, Any]:
    return {
        "type": ENDORSEMENT,
        "key_id": key.key_id,
        "public_key": base64.b64encode(key.public_key).decode(),
        "made_at": key.made_at,
    }


class KeyPlace(Protocol):
    """Where a signing key and its list of public keys are kept: a file, or a Prefect block."""

    @property
    def where(self) -> str:
        """As a person would write it."""

    def private(self) -> SigningKey | None:
        """The key that signs now, None if there is none.

        Raises:
            KeyUnusable: it is there, and cannot be used.
        """

    def public(self) -> KeyList:
        """All public keys; an empty list if there never was a key.

        Raises:
            KeyUnusable: the list is damaged.
        """

    def keep(self, private: SigningKey, public: KeyList) -> None:
        """Replace both; the list first, so that nothing is ever signed by a key that is not in it.

        Raises:
            KeyUnusable: the place does not take them.
        """

    def changing(self) -> AbstractContextManager[None]:
        """Keep other processes from changing it meanwhile, where the place can."""


def signing_key(place: KeyPlace) -> SigningKey:
    """The key to sign with.

    Raises:
        KeyMissing, KeyUnusable: there is none, or it is not in its list of public keys.
    """
    key = place.private()
    if key is None:
        raise KeyMissing(place.where)
    if key.key_id not in place.public():
        raise KeyUnusable(
            place.where,
            f"key {key.key_id} is not in its list of public keys",
            hint="Put the list back from a copy, or name another key",
        )
    return key


def make_key(place: KeyPlace, *, now: datetime) -> PublicKey:
    """Make the first key of a place, or one in place of a key that was lost.

    Raises:
        KeyExists: there is one.
        KeyUnusable: what is there cannot be read, or the place does not take a key.
    """
    with place.changing():
        existing = place.private()
        if existing is not None:
            raise KeyExists(place.where, existing.key_id)
        key = SigningKey.make()
        made = PublicKey(key.public_key, moment(now))
        place.keep(key, place.public().with_key(made))
    return made


def rotate_key(place: KeyPlace, *, now: datetime) -> PublicKey:
    """Make the successor of a key; the key before it endorses it, and its private half is gone.

    What was signed before stays valid: its public half stays in the list.

    Raises:
        KeyMissing, KeyUnusable: there is no usable key, or the place does not take another.
    """
    with place.changing():
        before = signing_key(place)
        key = SigningKey.make()
        made = PublicKey(key.public_key, moment(now))
        made = PublicKey(made.public_key, made.made_at, before.sign(_endorsement(made)))
        place.keep(key, place.public().with_key(made))
    return made
