"""Frames as a row holds them: compressed, with a check over what lies there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from xxhash import xxh3_64_intdigest

CODEC_NONE: Final = 0
CODEC_ZSTD: Final = 1
_ZSTD_LEVEL: Final = 1
#: A payload that claims to be larger is damage, not data.
MAX_RAW_BYTES: Final = 64 * 2**20


class BadPayload(Exception):
    """These bytes are not what was written; the message says how that showed."""


@dataclass(frozen=True, slots=True)
class Payload:
    """What one row keeps of a run of frames.

    Attributes:
        checksum: xxh3-64 of `stored`.
    """

    codec: int
    raw_bytes: int
    checksum: int
    stored: bytes


def squeeze(frames: bytes) -> Payload:
    """The payload of a run."""
    stored = pa.Codec("zstd", _ZSTD_LEVEL).compress(frames, asbytes=True)
    codec = CODEC_ZSTD
    if len(stored) >= len(frames):
        codec, stored = CODEC_NONE, frames
    return Payload(codec, len(frames), xxh3_64_intdigest(stored), stored)


def expand(payload: Payload) -> bytes:
    """The run of a payload.

    Raises:
        BadPayload: it fails its check, or does not decompress to its size.
    """
    if xxh3_64_intdigest(payload.stored) != payload.checksum:
        raise BadPayload("its frames fail their check")
    if not 0 <= payload.raw_bytes <= MAX_RAW_BYTES:
        raise BadPayload(f"it claims {payload.raw_bytes} bytes of frames")
    if payload.codec == CODEC_NONE:
        frames = payload.stored
    elif payload.codec == CODEC_ZSTD:
        try:
            frames = pa.Codec("zstd").decompress(payload.stored, payload.raw_bytes, asbytes=True)
        except (OSError, pa.ArrowException) as error:
            raise BadPayload(f"its frames do not decompress: {error}") from error
    else:
        raise BadPayload(f"its codec is {payload.codec}, which this version does not know")
    if len(frames) != payload.raw_bytes:
        raise BadPayload(f"its frames have {len(frames)} bytes, not {payload.raw_bytes}")
    return frames
