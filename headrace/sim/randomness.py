"""Chance that can be asked for by name: the same key gives the same number, in any order."""

from __future__ import annotations

from hashlib import blake2b

_MASK = (1 << 64) - 1


def key_of(seed: int, name: str) -> int:
    """A 64-bit key of its own for `name` under `seed`."""
    digest = blake2b(f"{seed}:{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def mix(key: int, number: int) -> int:
    """64 well mixed bits of (key, number): the finaliser of SplitMix64 (Steele et al., 2014)."""
    z = (key + (number + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def unit(key: int, number: int) -> float:
    """A float of (key, number), evenly spread over the open interval (0, 1)."""
    return ((mix(key, number) >> 12) + 0.5) / (1 << 52)
