"""Decimals as text, brought to one spelling: 1.0, 1.00 and 1E0 all become 1.

The canonical spelling is plain notation: an optional `-`, digits without leading zeros (one zero
before the point), and a fraction without trailing zeros, with its point only if there is one.
Zero is `0`, without a sign. Nothing passes through a float.

Accepted are ASCII digits with an optional sign, point and exponent. Spaces, underscores, NaN and
Infinity are not numbers here, although Python's Decimal takes them.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

#: An exponent beyond this is a hostile or broken value: its plain notation would fill the memory.
MAX_EXPONENT = 400

_DECIMAL = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,9}))?")
_PLAIN = r"^(?:0|[1-9][0-9]*)(?:\.[0-9]+)?$"


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
    if abs(exponent) > MAX_EXPONENT:
        raise ValueError(f"{text!r} has an exponent beyond {MAX_EXPONENT}")
    point = len(whole) + exponent
    digits = whole + fraction
    if point < 0:
        digits, point = "0" * -point + digits, 0
    digits = digits.ljust(point, "0")
    whole = digits[:point].lstrip("0") or "0"
    fraction = digits[point:].rstrip("0")
    plain = f"{whole}.{fraction}" if fraction else whole
    return f"-{plain}" if sign == "-" and plain != "0" else plain


def canonical_decimals(column: pa.StringArray) -> pa.StringArray:
    """`canonical_decimal` over a column without nulls, vectorised where values are plain.

    Exchanges send plain decimals, so nearly always a few passes over the column are all; rows of
    another form are taken one by one.

    Raises:
        NotADecimal: naming the first row that is none.
    """
    plain = pc.match_substring_regex(column, _PLAIN)
    if pc.all(plain, min_count=0).as_py():
        return _trimmed(column)
    odd = pc.invert(plain)
    spelled = []
    for row in pc.indices_nonzero(odd).to_pylist():
        try:
            spelled.append(canonical_decimal(column[row].as_py()))
        except ValueError as error:
            raise NotADecimal(row, str(error)) from error
    return pc.replace_with_mask(_trimmed(column), odd, pa.array(spelled, pa.string()))


class NotADecimal(ValueError):
    """A row of a column of decimals is none. `row` counts from 0."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.reason = reason


def _trimmed(column: pa.StringArray) -> pa.StringArray:
    """Plain values without the zeros that end their fractions."""
    trimmed = pc.ascii_rtrim(pc.ascii_rtrim(column, "0"), ".")
    has_point = pc.match_substring(column, ".")
    if pc.all(has_point, min_count=0).as_py():
        return trimmed
    return pc.if_else(has_point, trimmed, column)
