"""The elements of an answer that is an array: as they stand in it, byte for byte, or parsed."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from headrace.wire.exceptions import BadAnswer

_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])


def elements_of(body: bytes, about: str) -> list[bytes]:
    """The elements of a JSON array as they stand in it, byte for byte.

    Raises:
        BadAnswer: the body is no array: `null`, an object, HTML, nothing, half an array.
    """
    try:
        return [bytes(element) for element in _ELEMENTS.decode(body)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _slowly(body, about, error)


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a parsed array; nothing if it is none."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _slowly(body: bytes, about: str, error: Exception) -> list[bytes]:
    """For arrays that the fast parser does not take: text with bytes that are not Unicode."""
    text = body.decode("utf-8", "surrogateescape")
    decoder = json.JSONDecoder()
    refusal = BadAnswer(f"the body is no list ({error})", product=about, status=200)
    at = _skipped(text, 0)
    if text[at : at + 1] != "[":
        raise refusal from error
    found: list[bytes] = []
    at = _skipped(text, at + 1)
    ended = text[at : at + 1] == "]"
    while not ended:
        try:
            _value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            raise refusal from error
        found.append(text[at:end].encode("utf-8", "surrogateescape"))
        at = _skipped(text, end)
        ended = text[at : at + 1] == "]"
        if not ended and text[at : at + 1] != ",":
            raise refusal from error
        at = at if ended else _skipped(text, at + 1)
    if _skipped(text, at + 1) != len(text):
        raise refusal from error
    return found


def _skipped(text: str, at: int) -> int:
    while text[at : at + 1] in (" ", "\t", "\r", "\n") and at < len(text):
        at += 1
    return at
