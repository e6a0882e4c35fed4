"""From an id to a file name and back, one to one, on any file system.

An id comes from outside and may be `../../x`, `model::name` or differ from another by case alone.
So lower-case letters, digits, `-` and `_` stand for themselves, as do dots within; every other byte
of the UTF-8 form becomes `%` and two lower-case digits. Names are ASCII and have no capitals, so
file systems that fold case or normalise Unicode keep them apart. What would be too long ends in `~`
and a hash; its id stands in the body.
"""

from __future__ import annotations

import hashlib
import re
from urllib.parse import unquote_to_bytes

SUFFIX = ".json"
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_.")
#: Names that Windows keeps for devices, whatever follows the first dot.
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)")
_LONGEST = 200
_ENCODED = re.compile(r"(?:[a-z0-9_.-]|%[0-9a-f]{2})+")


def file_name(item_id: str) -> str:
    """The file name of an item, with its suffix."""
    raw = item_id.encode()
    name = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in raw)
    if name.startswith("."):
        name = f"%2e{name[1:]}"
    if _DEVICES.match(name):
        name = f"%{raw[0]:02x}{name[1:]}"
    if len(name) > _LONGEST:
        name = f"{name[: _LONGEST - 65].rstrip('%')}~{hashlib.sha256(raw).hexdigest()}"
    return name + SUFFIX


def id_of_name(name: str) -> str | None:
    """The id that a file name stands for; None if the name alone does not say.

    Raises:
        ValueError: it is no name of ours.
    """
    stem = name.removesuffix(SUFFIX)
    if stem == name:
        raise ValueError(f"{name!r} does not end in {SUFFIX}")
    if "~" in stem:
        return None
    if not _ENCODED.fullmatch(stem):
        raise ValueError(f"{name!r} is not as `unpack` writes names")
    item_id = unquote_to_bytes(stem).decode()
    if file_name(item_id) != name:
        raise ValueError(f"{name!r} is not how `unpack` writes {item_id!r}")
    return item_id
