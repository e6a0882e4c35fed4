"""From the body of a listing to the bytes of its elements, each as the server sent it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from headrace.exchange.exceptions import BadAnswer
from headrace.looker.content import SEPARATOR, Content, Listing
from headrace.looker.vault import id_text

_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])


class Named(msgspec.Struct):
    """What a listing says of an element without its body."""

    id: Any = None
    dashboard_id: Any = None
    name: Any = None
    title: Any = None
    updated_at: Any = None
    deleted_at: Any = None
    folder_id: Any = None
    explores: list[dict[str, Any]] | None = None


_NAMED = msgspec.json.Decoder(list[Named])


def elements_of(body: bytes, about: str) -> list[bytes]:
    """The elements of a JSON array as they stand in it, byte for byte.

    Raises:
        BadAnswer: the body is no array: `null`, an object, HTML, nothing, half an array.
    """
    try:
        return [bytes(element) for element in _ELEMENTS.decode(body)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _slowly(body, about, error)


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


def named_of(body: bytes, about: str) -> list[Named]:
    """What each element says of itself.

    Raises:
        BadAnswer: the body is no array of objects.
    """
    try:
        return _NAMED.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            found = json.loads(body)
            if not isinstance(found, list):
                raise TypeError(f"a JSON {type(found).__name__}")
            return [msgspec.convert(each, Named) for each in found]
        except (ValueError, TypeError, RecursionError, msgspec.ValidationError) as error:
            raise BadAnswer(
                f"the body is no list of objects ({error})", product=about, status=200
            ) from error


def id_of(content: Content, named: Named) -> str | None:
    """The id of an element of a listing; None if it has none."""
    for field in content.id_fields:
        if SEPARATOR not in field:
            found = id_text(getattr(named, field, None))
            if found is not None:
                return found
    return None


def light_fields(content: Content, listing: Listing) -> str:
    """The fields that name an element and tell whether it changed."""
    if listing.within:
        return f"name,{listing.within}(name)"
    if content.type == "lookml_model":
        return "name"
    return "id,dashboard_id,title,name,updated_at,deleted_at,folder_id"


def explores_of(model: Named) -> list[str]:
    """Ids of the explores of a model."""
    stem = id_text(model.name)
    names = [id_text(explore.get("name")) for explore in model.explores or ()]
    return [f"{stem}{SEPARATOR}{name}" for name in names if stem and name]
