"""Columns of times, by the rules of `headrace.exchange.times`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from headrace.exchange.times import parse_time

TIME_TYPE = pa.timestamp("us", tz="UTC")

#: The years that a datetime knows, in microseconds; Arrow's calendar goes on before and after.
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_US = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_LAST_US = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


def parse_times(texts: list[str]) -> pa.Array:
    """A column of times, UTC microseconds.

    Raises:
        ValueError: naming the first text that is no time, with its index in `error.args[1]`.
    """
    try:
        # Arrow's own parser is exact for up to six digits and refuses the rest.
        moments = pa.array(texts, pa.string()).cast(TIME_TYPE)
    except pa.ArrowInvalid:
        return _one_by_one(texts)
    span = pc.min_max(moments.cast(pa.int64()))
    if len(moments) and not (span["min"].as_py() >= _FIRST_US and span["max"].as_py() <= _LAST_US):
        return _one_by_one(texts)
    return moments


def _one_by_one(texts: list[str]) -> pa.Array:
    moments: list[datetime] = []
    for index, text in enumerate(texts):
        try:
            moments.append(parse_time(text))
        except ValueError as error:
            raise ValueError(str(error), index) from error
    return pa.array(moments, TIME_TYPE)
