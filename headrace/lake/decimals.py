"""Decimals as text, brought to one spelling, and to two words of 64 bits that a digest can mix.

The canonical spelling is plain notation: an optional `-`, digits without leading zeros (one zero
before the point), and a fraction without trailing zeros, with its point only if there is one.
Zero is `0`, without a sign. So 1.0, 1.00 and 1E0 all become 1. Nothing passes through a float.

Accepted are ASCII digits with an optional sign, point and exponent. Spaces, underscores, NaN and
Infinity are not numbers here, although Python's Decimal takes them.

The words of a decimal are those of its value x 10^18 as a 128-bit two's complement, low word first,
as far as that is a whole number of at most 38 digits. Of any other decimal, of which exchanges have
none, they are the first 16 bytes of the BLAKE2b digest of its canonical spelling, little-endian.
"""

from __future__ import annotations

import hashlib
import re
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

#: An exponent beyond this is a hostile or broken value: its plain notation would fill the memory.
MAX_EXPONENT = 400

_SCALE = 18
_PRECISION = 38
_WORD = 1 << 64
_FIXED = pa.decimal128(_PRECISION, _SCALE)
_DECIMAL = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,9}))?")
_EVEN = pa.array(range(0, 1 << 15, 2), pa.int32())
#: Characters of a number that has no more than 19 digits after the point and 20 before it.
_SHORT = 20
#: A number of 16 characters, point included, below 10^7: at most 15 digits that count, which is
#: what a double distinguishes (IEEE 754; DBL_DIG in C). Times 10^8 it stays below 2^50.
_EXACT, _EXACT_BELOW = 16, 1e7
_PLACES = 1e8
_LIFT = pa.scalar(10 ** (_SCALE - 8), pa.uint64())
_LOW_BITS, _LOW_MASK = (pa.scalar(word, pa.uint64()) for word in (20, (1 << 20) - 1))
_REST_BITS = pa.scalar(64 - 20, pa.uint64())
_SMALL = rf"^[0-9]{{1,{_PRECISION - _SCALE}}}(?:\.[0-9]{{1,{_SCALE}}})?$"


def canonical_decimal(text: str) -> str:
    """The canonical spelling of one decimal. The definition; everything faster must agree with it.

    Raises:
        ValueError: if `text` is not a finite decimal, or its exponent is beyond `MAX_EXPONENT`.
    """
    match = _DECIMAL.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        raise ValueError(f"{text!r} is not a decimal")
    sign, whole, fraction = match[1], match[2], match[3] or ""
    exponent = int(match[4] or 0)
    digits = whole + fraction
    if not digits.strip("0"):
        return "0"
    if abs(exponent) > MAX_EXPONENT:
        raise ValueError(f"{text!r} has an exponent beyond {MAX_EXPONENT}")
    point = len(whole) + exponent
    if point < 0:
        digits, point = "0" * -point + digits, 0
    digits = digits.ljust(point, "0")
    whole = digits[:point].lstrip("0") or "0"
    fraction = digits[point:].rstrip("0")
    plain = f"{whole}.{fraction}" if fraction else whole
    return f"-{plain}" if sign == "-" else plain


def words_of(text: str) -> tuple[int, int]:
    """The two words of one decimal, low word first: the definition.

    Raises:
        ValueError: as `canonical_decimal`.
    """
    canonical = canonical_decimal(text)
    whole, _, fraction = canonical.removeprefix("-").partition(".")
    if len(fraction) > _SCALE or len(whole) > _PRECISION - _SCALE:
        value = int.from_bytes(
            hashlib.blake2b(canonical.encode(), digest_size=16).digest(), "little"
        )
    else:
        value = int(whole + fraction.ljust(_SCALE, "0"))
        value = -value if canonical[0] == "-" else value
    return value % _WORD, (value >> 64) % _WORD


def column_words(column: pa.StringArray) -> tuple[pa.UInt64Array, pa.UInt64Array]:
    """`words_of` over a column without nulls: all low words, all high words.

    Arrow reads short plain numbers as decimals of a fixed scale, exactly or not at all. (It must
    not be given others: version 26 reads a thousand digits as a wrong number, and dies of
    `0e-999999999`.) It reads doubles three times as fast, which will do where they distinguish all
    values apart. Values of another form are taken one by one.

    Raises:
        NotADecimal: naming the first row that is none.
    """
    longest = _longest_plain(column)
    if longest is not None and longest <= _SHORT:
        try:
            return (longest <= _EXACT and _by_doubles(column)) or _split(column.cast(_FIXED))
        except pa.ArrowInvalid:
            pass
    small = pc.match_substring_regex(column, _SMALL)
    lows, highs = _split(pc.if_else(small, column, "0").cast(_FIXED))
    odd = pc.invert(small)
    words = []
    for row in pc.indices_nonzero(odd).to_pylist():
        try:
            words.append(words_of(column[row].as_py()))
        except ValueError as error:
            raise NotADecimal(row, str(error)) from error
    low, high = (pa.array([pair[at] for pair in words], pa.uint64()) for at in (0, 1))
    return pc.replace_with_mask(lows, odd, low), pc.replace_with_mask(highs, odd, high)


def words_of_decimals(column: pa.Decimal128Array) -> tuple[pa.UInt64Array, pa.UInt64Array]:
    """`column_words` of values that are decimals already, of at most 18 places and 20 digits more.

    Raises:
        pa.ArrowInvalid: if a value has more.
    """
    return _split(column.cast(_FIXED))


def fitting(
    column: pa.StringArray, kind: pa.Decimal128Type
) -> tuple[pa.Decimal128Array, dict[int, str]]:
    """The values of texts as decimals of a fixed precision and scale: exact, or null.

    Args:
        column: decimals as text, without nulls.
        kind: the type wanted.

    Returns:
        The values, and for each row that is null the reason.
    """
    longest = _longest_plain(column)
    if longest is not None and longest <= _SHORT:
        try:
            return column.cast(kind), {}
        except pa.ArrowInvalid:
            pass
    whole, places = kind.precision - kind.scale, kind.scale
    pattern = rf"^[0-9]{{1,{whole}}}(?:\.[0-9]{{1,{places}}})?$"
    small = pc.match_substring_regex(column, pattern)
    reasons: dict[int, str] = {}
    values: list[Decimal | None] = []
    odd = pc.invert(small)
    for row in pc.indices_nonzero(odd).to_pylist():
        value, reason = _fitted(column[row].as_py(), whole, places)
        values.append(value)
        if reason:
            reasons[row] = reason
    fitted = pc.if_else(small, column, "0").cast(kind)
    return pc.replace_with_mask(fitted, odd, pa.array(values, kind)), reasons


def _fitted(text: str, whole: int, places: int) -> tuple[Decimal | None, str]:
    """The value of one text, or why it does not fit."""
    try:
        canonical = canonical_decimal(text)
    except ValueError as error:
        return None, str(error)
    digits, _, fraction = canonical.removeprefix("-").partition(".")
    if len(digits) > whole and digits != "0":
        return None, f"{len(digits)} digits before the point; {whole} fit"
    if len(fraction) > places:
        return None, f"{len(fraction)} places after the point; {places} fit"
    return Decimal(canonical), ""


class NotADecimal(ValueError):
    """A row of a column of decimals is none. `row` counts from 0."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.reason = reason


def _longest_plain(column: pa.StringArray) -> int | None:
    """The length of the longest value; None if one has a letter (an exponent) or all are empty."""
    if not len(column):
        return 0
    _, offsets, texts = column.buffers()
    if texts is None:
        return None  # nothing but empty texts
    ends = pa.Array.from_buffers(pa.int32(), len(column) + 1, [None, offsets], offset=column.offset)
    begin, end = ends[0].as_py(), ends[-1].as_py()
    texts = pa.Array.from_buffers(pa.uint8(), end - begin, [None, texts], offset=begin)
    longest: int = pc.max(pc.binary_length(column)).as_py()
    return longest if longest and pc.max(texts).as_py() <= ord("9") else None


def _by_doubles(column: pa.StringArray) -> tuple[pa.UInt64Array, pa.UInt64Array] | None:
    """The words of numbers of at most 16 characters, None unless doubles hold all of them.

    A value of up to 8 places is some whole number of 10^-8. The double nearest to the text gives
    that number, and the double nearest to that number of 10^-8 is the same one only if it is the
    same value: both have at most 15 digits, and no two such values share a double.

    Raises:
        pa.ArrowInvalid: if a text is no number.
    """
    doubles = column.cast(pa.float64())
    bounds = pc.min_max(doubles)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is None or not (low >= 0 and high < _EXACT_BELOW):
        return None
    whole = pc.floor(pc.add(pc.multiply(doubles, _PLACES), 0.5))
    if not pc.all(pc.equal(pc.divide(whole, _PLACES), doubles)).as_py():
        return None
    units = whole.cast(pa.uint64(), safe=False)
    # 128 bits of units x 10^10: the upper 30 bits and the lower 20 of the units, each in one word.
    upper = pc.multiply(pc.shift_right(units, _LOW_BITS), _LIFT)
    lower = pc.shift_right(pc.multiply(pc.bit_wise_and(units, _LOW_MASK), _LIFT), _LOW_BITS)
    return pc.multiply(units, _LIFT), pc.shift_right(pc.add(upper, lower), _REST_BITS)


def _split(values: pa.Decimal128Array) -> tuple[pa.UInt64Array, pa.UInt64Array]:
    """The low and the high words of decimals, which Arrow keeps in turn (little-endian)."""
    rows = len(values)
    words = pa.Array.from_buffers(
        pa.uint64(), 2 * rows, [None, values.buffers()[1]], offset=2 * values.offset
    )
    even = _EVEN[:rows] if rows <= len(_EVEN) else pa.array(range(0, 2 * rows, 2), pa.int32())
    return words.take(even), words.slice(1).take(even)
