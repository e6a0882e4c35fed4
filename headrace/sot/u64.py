"""Unsigned 64 bit in signed columns: two's complement both ways, in unsigned order.

SQL and CQL have signed integers only. A value from 2**63 on is stored as itself minus 2**64; a
column sorted as signed has those first, so a range over unsigned values is read in two stretches.
"""

from __future__ import annotations

from typing import Final

from headrace.sot.record import U32_MAX, U64_MAX

_SIGN: Final = 2**63
_MODULUS: Final = 2**64


def to_signed(value: int) -> int:
    """The signed 64-bit integer with the same bits.

    Raises:
        OverflowError: if `value` is not within 0 to 2**64 - 1.
    """
    if not 0 <= value <= U64_MAX:
        raise OverflowError(f"{value} is not an unsigned 64-bit integer")
    return value - _MODULUS if value >= _SIGN else value


def from_signed(value: int) -> int:
    """The unsigned integer with the same 64 bits."""
    return value % _MODULUS


def to_signed32(value: int) -> int:
    """The signed 32-bit integer with the same bits, for a symbol in an `int` column.

    Raises:
        OverflowError: if `value` is not within 0 to 2**32 - 1.
    """
    if not 0 <= value <= U32_MAX:
        raise OverflowError(f"{value} is not an unsigned 32-bit integer")
    return value - 2**32 if value >= 2**31 else value


def from_signed32(value: int) -> int:
    """The unsigned integer with the same 32 bits."""
    return value % 2**32


def signed_stretches(low: int, high: int) -> list[tuple[int, int]]:
    """The unsigned range `low` to `high` (inclusive) as ranges of signed values, in order."""
    if low > high:
        return []
    if low < _SIGN <= high:
        return [(low, _SIGN - 1), (-_SIGN, to_signed(high))]
    return [(to_signed(low), to_signed(high))]
