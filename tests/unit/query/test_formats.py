"""What is written is what the query gave, to the last digit."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.query.exceptions import QueryRefused
from headrace.query.formats import Format, row_writer

VALUES = """
SELECT * FROM (VALUES
  (9007199254740993, 67123.45000000::DECIMAL(28, 14), 'a,"b"' || chr(10) || 'c',
   TIMESTAMPTZ '2024-11-03 08:30:00.000001Z', DATE '1970-01-01', [1, 2],
   {'a': 1.50::DECIMAL(5, 2)}),
  (2, 0.00000001::DECIMAL(28, 14), '', TIMESTAMPTZ '2024-11-03 08:30:00Z', NULL, [], NULL),
  (3, 0::DECIMAL(28, 14), NULL, NULL, NULL, NULL, NULL),
  (4, 100::DECIMAL(28, 14), 'ü', NULL, NULL, NULL, NULL),
  (5, NULL, 'null', NULL, NULL, NULL, NULL)
) AS t(id, price, "text", "at", "day", "list", "struct")
"""


def rows() -> pa.Table:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return connection.sql(VALUES).to_arrow_table()


def written(form: Format, table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with row_writer(form, table.schema, sink) as write:
        for batch in table.to_batches(max_chunksize=2):
            write(batch)
    return sink.getvalue()


def test_csv() -> None:
    found = list(csv.DictReader(io.StringIO(written(Format.CSV, rows()).decode())))

    assert [row["id"] for row in found] == ["9007199254740993", "2", "3", "4", "5"]
    assert [row["price"] for row in found] == ["67123.45", "0.00000001", "0", "100", ""]
    assert [row["text"] for row in found] == ['a,"b"\nc', "", "", "ü", "null"]
    assert found[0]["at"] == "2024-11-03 08:30:00.000001Z"
    assert (found[0]["day"], found[0]["list"], found[0]["struct"]) == (
        "1970-01-01",
        "[1,2]",
        '{"a":"1.50"}',
    )


@pytest.mark.parametrize("form", [Format.JSON, Format.JSONL])
def test_json(form: Format) -> None:
    text = written(form, rows()).decode()
    found = (
        json.loads(text)
        if form is Format.JSON
        else [json.loads(line) for line in text.splitlines()]
    )

    assert found[0] == {
        "id": 9007199254740993,
        "price": "67123.45",
        "text": 'a,"b"\nc',
        "at": "2024-11-03T08:30:00.000001Z",
        "day": "1970-01-01",
        "list": [1, 2],
        "struct": {"a": "1.50"},
    }
    assert [row["price"] for row in found] == ["67123.45", "0.00000001", "0", "100", None]
    assert [row["text"] for row in found][1:3] == ["", None]


def test_arrow_and_parquet_keep_the_types() -> None:
    table = rows()

    assert pa.ipc.open_stream(written(Format.ARROW, table)).read_all() == table
    read = pq.read_table(io.BytesIO(written(Format.PARQUET, table)))
    assert read.to_pylist() == table.to_pylist()
    assert read["price"][1].as_py() == Decimal("0.00000001")


@pytest.mark.parametrize("form", [each for each in Format if each is not Format.TABLE])
def test_no_row_at_all_is_a_whole_file_too(form: Format) -> None:
    content = written(form, rows().slice(0, 0))

    if form is Format.JSON:
        assert json.loads(content) == []
    elif form is Format.CSV:
        assert content.startswith(b'"id","price"')
    elif form is Format.PARQUET:
        assert pq.read_table(io.BytesIO(content)).num_rows == 0


def test_a_type_that_a_format_lacks_is_named_with_the_way_out() -> None:
    interval = duckdb.sql("SELECT INTERVAL 1 MONTH AS step").to_arrow_table()
    with pytest.raises(QueryRefused, match="VARCHAR"):
        written(Format.PARQUET, interval)

    large = duckdb.sql("SELECT '123456789012345678901234567890123456789012'::BIGNUM AS n")
    with pytest.raises(QueryRefused, match="column n"):
        written(Format.CSV, large.to_arrow_table())
