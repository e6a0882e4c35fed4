"""What a query can name: views of the layers, and candles.

All of it is SQL over `headrace.query.files`, bound to the files when a query names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.lake.names import RAW_ROOT
from headrace.query.files import PARTITIONS, PROTOCOL, SCHEMAS
from headrace.unified.schema import PRICE_TYPE, QUANTITY_TYPE
from headrace.unified.table import QUARANTINE_ROOT, UNIFIED_ROOT

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

VIEWS: Final = {"trades": UNIFIED_ROOT, "trades_raw": RAW_ROOT, "quarantine": QUARANTINE_ROOT}
#: All that stands behind FROM.
TABLES: Final = (*VIEWS, "candles")

_PRICE_PLACES, _QUANTITY_PLACES = PRICE_TYPE.scale, QUANTITY_TYPE.scale
_PLACES = _PRICE_PLACES + _QUANTITY_PLACES
_PRICE = f"DECIMAL({PRICE_TYPE.precision}, {_PRICE_PLACES})"
_LEAST_PRICE = f"{10**-_PRICE_PLACES:.{_PRICE_PLACES}f}"
#: Whole parts. DuckDB gives a product 128 bits only if one of its factors has more than 18 digits.
_WHOLE_PRICE = f"trunc(price)::DECIMAL({PRICE_TYPE.precision - _PRICE_PLACES}, 0)"
_WHOLE_QUANTITY = "trunc(quantity)::DECIMAL(19, 0)"
#: And the rest.
_PRICE_REST = f"(price - trunc(price))::DECIMAL({_PRICE_PLACES}, {_PRICE_PLACES})"
_QUANTITY_REST = f"(quantity - trunc(quantity))::DECIMAL(19, {_QUANTITY_PLACES})"

#: A sum of prices x quantities may need more digits than any number of DuckDB has. So whole parts
#: and fractions are multiplied apart, and their sums kept apart: each has room for a million of the
#: greatest values. A sum of products has as many places as price and quantity together; divided by
#: a volume it has those of a price. What fits 128 bits is divided at once, the rest by digits.
MACROS: Final = (
    "CREATE MACRO _unscaled(x) AS replace(x::VARCHAR, '.', '')::HUGEINT",
    # The first border of a step at or after a time.
    """CREATE MACRO _border(step, ts) AS
        time_bucket(step::INTERVAL, ts::TIMESTAMPTZ + step::INTERVAL - INTERVAL 1 MICROSECOND)""",
    f"""CREATE MACRO _price(n) AS (n // {10**_PRICE_PLACES})::{_PRICE}
        + (n % {10**_PRICE_PLACES})::DECIMAL({_PRICE_PLACES}, 0) * {_LEAST_PRICE}""",
    """CREATE MACRO _nearest(q, r, d) AS _price(q + CASE
        WHEN 2 * r > d OR (2 * r = d AND q % 2 = 1) THEN 1 ELSE 0 END)""",
    "CREATE MACRO _rounded(n, d) AS _nearest(n // d, n % d, d)",
    # Division as on paper, for a dividend of any length.
    "CREATE MACRO _big(x, zeros) AS (_unscaled(x)::VARCHAR || repeat('0', zeros))::BIGNUM",
    """CREATE MACRO _quotient(digits, d) AS list_reduce(
        [{'q': 0::HUGEINT, 'r': c::HUGEINT} FOR c IN string_split(digits, '')],
        lambda done, next: {'q': done.q * 10 + (done.r * 10 + next.r) // d,
            'r': (done.r * 10 + next.r) % d},
        {'q': 0::HUGEINT, 'r': 0::HUGEINT})""",
    """CREATE MACRO _rounded_digits(digits, d) AS
        _nearest(_quotient(digits, d).q, _quotient(digits, d).r, d)""",
    "CREATE MACRO _months(step) AS 12 * date_part('year', step) + date_part('month', step)",
    """CREATE MACRO _steps_between(step, earlier, later) AS CASE
        WHEN _months(step) > 0 THEN date_diff('month', earlier, later) // _months(step)
        ELSE (epoch_us(later) - epoch_us(earlier)) // epoch_us(step) END""",
    f"""CREATE MACRO candles(step, product := NULL, since := NULL, until := NULL) AS TABLE
    WITH grouped AS (
        SELECT
            exchange, symbol, time_bucket(step::INTERVAL, trade_ts) AS start_ts,
            arg_min(price, trade_id) AS open, max(price) AS high, min(price) AS low,
            arg_max(price, trade_id) AS close, sum(quantity) AS volume, count(*) AS count,
            sum({_WHOLE_PRICE} * {_WHOLE_QUANTITY}) AS whole,
            sum({_WHOLE_PRICE} * {_QUANTITY_REST}) AS of_quantity,
            sum({_PRICE_REST} * {_WHOLE_QUANTITY}) AS of_price,
            sum({_PRICE_REST} * {_QUANTITY_REST}) AS of_both
        FROM trades
        WHERE (product IS NULL OR symbol = upper(product))
            AND (since IS NULL OR (trade_ts >= _border(step, since)
                AND month >= strftime(_border(step, since), '%Y-%m')))
            AND (until IS NULL OR (trade_ts < _border(step, until)
                AND month <= strftime(_border(step, until), '%Y-%m')))
        GROUP BY ALL
    )
    SELECT
        exchange, symbol, start_ts, open, high, low, close, volume, count,
        CASE
            WHEN volume <= 0 THEN NULL
            WHEN volume < 1e27
                AND greatest(abs(whole), abs(of_quantity), abs(of_price), abs(of_both)) < 1e13
            THEN _rounded(
                _unscaled(whole) * {10**_PLACES}
                    + _unscaled(of_quantity) * {10**_PRICE_PLACES}
                    + _unscaled(of_price) * {10**_QUANTITY_PLACES}
                    + _unscaled(of_both),
                _unscaled(volume))
            ELSE _rounded_digits(
                (_big(whole, {_PLACES}) + _big(of_quantity, {_PRICE_PLACES})
                    + _big(of_price, {_QUANTITY_PLACES}) + _big(of_both, 0))::VARCHAR,
                _unscaled(volume))
        END AS vwap,
        coalesce(_steps_between(step::INTERVAL, lag(start_ts) OVER before, start_ts) - 1, 0) AS gap
    FROM grouped
    WINDOW before AS (PARTITION BY exchange, symbol ORDER BY start_ts)""",
)


def create_views(connection: DuckDBPyConnection) -> None:
    """Make the views and macros; the files of a lake are registered already."""
    for name, root in VIEWS.items():
        # A set would lose the order.
        columns = ", ".join(dict.fromkeys((*PARTITIONS[root], *SCHEMAS[root].names)))
        types = ", ".join(f"'{column}': VARCHAR" for column in PARTITIONS[root])
        connection.execute(
            f"CREATE VIEW {name} AS SELECT {columns} FROM read_parquet("
            f"'{PROTOCOL}://{root}/**/*.parquet', hive_partitioning = true, "
            f"hive_types = {{{types}}})"
        )
    for macro in MACROS:
        connection.execute(macro)
