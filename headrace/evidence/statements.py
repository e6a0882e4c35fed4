"""Statements that are signed: their bytes, and the envelope they travel in (docs/evidence.md).

The bytes that are signed are the canonical JSON of the payload: one text for one value, whatever
program writes it. So an envelope may be formatted, nested or stored in any way, and stays valid.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from headrace.evidence.exceptions import BadStatement

#: Beyond it, readers that hold numbers as doubles read another value: larger ones travel as text.
_LARGEST = 2**53 - 1


def canonical(value: Any) -> bytes:
    """The one UTF-8 text of a JSON value: keys sorted, no blanks, no escapes but the needed ones.

    Raises:
        ValueError: it holds what has no such text: a fraction, a number beyond 2**53 - 1, a key
            that is not ASCII, a lone surrogate, or what is no JSON at all.
    """
    _check(value, "payload")
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def _check(value: Any, place: str) -> None:
    if value is None or isinstance(value, bool | str):
        return
    if isinstance(value, int):
        if abs(value) > _LARGEST:
            raise ValueError(f"{place}: {value} is beyond 2**53 - 1; write it as text")
    elif isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str) or not key.isascii():
                raise ValueError(f"{place}: key {key!r} is not ASCII text")
            _check(inner, f"{place}.{key}")
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            _check(inner, f"{place}[{number}]")
    else:
        raise ValueError(f"{place}: {type(value).__name__} has no canonical text")


@dataclass(frozen=True, slots=True)
class Envelope:
    """A signed statement.

    Attributes:
        payload: what is stated; `type` names its form.
        key_id: which key signed.
        signature: Ed25519 over `canonical(payload)`, 64 bytes.
    """

    payload: dict[str, Any]
    key_id: str
    signature: bytes

    def as_dict(self) -> dict[str, Any]:
        """Its JSON form; the signature is base64."""
        return {
            "payload": self.payload,
            "key_id": self.key_id,
            "signature": base64.b64encode(self.signature).decode(),
        }

    def as_line(self) -> bytes:
        """Its canonical form, and a line feed."""
        return canonical(self.as_dict()) + b"\n"


def read_envelope(stored: bytes | str, *, where: str) -> Envelope:
    """The envelope that a JSON text holds; its signature is not checked yet.

    Raises:
        BadStatement: it is no envelope, or a key stands in it twice.
    """
    try:
        found = json.loads(stored, object_pairs_hook=_once, parse_float=_no_fraction)
    except (ValueError, RecursionError) as error:
        raise BadStatement(where, str(error)) from error
    return envelope_of(found, where=where)


def envelope_of(found: Any, *, where: str) -> Envelope:
    """The envelope in a JSON value that was read already.

    Raises:
        BadStatement: it is none.
    """
    if not isinstance(found, dict) or found.keys() != {"payload", "key_id", "signature"}:
        raise BadStatement(where, "it is no object of payload, key_id and signature")
    payload, key_id, signature = found["payload"], found["key_id"], found["signature"]
    if not isinstance(payload, dict) or not isinstance(payload.get("type"), str):
        raise BadStatement(where, "its payload is no object with a type")
    if not isinstance(key_id, str) or not isinstance(signature, str):
        raise BadStatement(where, "its key_id or its signature is no text")
    try:
        canonical(payload)
        return Envelope(payload, key_id, base64.b64decode(signature, validate=True))
    except binascii.Error as error:
        raise BadStatement(where, f"its signature is no base64: {error}") from error
    except (ValueError, RecursionError) as error:
        raise BadStatement(where, str(error)) from error


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {key!r} stands in it twice")
        found[key] = value
    return found


def _no_fraction(text: str) -> NoReturn:
    raise ValueError(f"{text} is no whole number")
