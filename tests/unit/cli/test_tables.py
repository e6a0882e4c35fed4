"""Tables for people: every value is there whole, however narrow the place is."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.box import HEAVY_HEAD
from rich.console import Console

import headrace.cli
from headrace.cli.common import result_console, table_of
from headrace.cli.tables import Column, FittedTable

BIG = 168_000_000_123
RANGE = "168000000123-168000009999"
#: Columns of the commands' tables, with the kind of value that each holds.
TABLES: dict[str, dict[str, Any]] = {
    "audit": {
        "product": "BTC-USD", "status": "partial", "rows": BIG, "watermark": BIG + 1,
        "missing": BIG + 2, "duplicate": BIG + 3, "newest": BIG + 4,
        "note": f"{RANGE} was not looked at, and the last 15 minutes were not either",
    },
    "backfill": {
        "product": "BTC-USD", "status": "running_elsewhere", "new": BIG, "stored": BIG + 1,
        "requests": BIG + 2, "watermark": BIG + 3, "newest": BIG + 4,
    },
    "checkpoints": {
        "product": "BTC-USD", "rows": BIG, "watermark": BIG + 1, "newest": BIG + 2, "holes": 3,
        "failed": 0, "saved": "2026-01-01 00:00:00Z",
    },
    "leases": {
        "lease": "coinbase/BTC-USD", "state": "held", "holder": "a-long-host-name pid 1680000",
        "run": "0b5de4e4-2f6c-4a3b-9f3e-1f3f6f5d7c11", "since": "2026-01-01 00:00:00Z",
        "until": "2026-01-01 00:01:00Z", "token": str(BIG),
    },
    "products": {
        "product": "BTC-USD", "base": "BTC", "quote": "USD", "state": "online",
        "trading": "enabled", "first seen": "2026-01-01", "last seen": "2026-01-02",
    },
    "vault": {"type": "dashboard_element", "items": BIG, "bodies (MB)": 168_000_123.4, "stored": 0},
}  # fmt: skip


def printed(table: FittedTable, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO())
    console.print(table)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def numbers_of(values: Any) -> set[str]:
    shown = (f"{each:,}" if isinstance(each, int | float) else str(each) for each in values)
    return {number for text in shown for number in re.findall(r"[\d][\d.,:-]*", text)}


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120, 200])
@pytest.mark.parametrize("name", TABLES)
def test_no_value_is_cut_in_a_terminal_of_any_width(name: str, width: int) -> None:
    row = TABLES[name]
    small = {column: 0 if isinstance(value, int) else value for column, value in row.items()}
    lines = printed(table_of([row, small], whole=("product", "status")), width)

    assert all(len(line) <= width for line in lines)
    text = "\n".join(lines)
    # The id of a run, with its letters, may be in two lines; a number never is.
    missing = {each for each in numbers_of(row.values()) if each not in text}
    assert not missing - numbers_of([row.get("run", "")]), text
    for column in row:
        assert all(word in text for word in column.split()), f"the name {column} is cut"


def test_what_fits_is_a_row_for_each_row_and_what_does_not_is_a_line_for_each_value() -> None:
    rows = [{"product": "BTC-USD", "missing": BIG}, {"product": "ETH-USD", "missing": None}]

    assert [line.strip() for line in printed(table_of(rows), 80) if line.strip()][2] == (
        "BTC-USD   168,000,000,123"
    )
    tight = printed(table_of(rows), 24)
    assert tight[2] == "BTC-USD 168,000,000,123"
    assert printed(table_of(rows, "audited"), 20) == [
        "audited", "product: BTC-USD", "missing: ", "168,000,000,123", "", "product: ETH-USD",
    ]  # fmt: skip


def test_texts_are_broken_before_rows_are() -> None:
    rows = [{"alarm": "data-old", "goes off when": "the newest trade is older than an hour"}]
    lines = printed(table_of(rows, whole=("alarm",)), 40)

    assert [line.split()[0] for line in lines if line.strip()][:3] == [
        "alarm",
        "─" * 38,
        "data-old",
    ]
    assert sum("data-old" in line for line in lines) == 1


def test_columns_of_one_name_and_a_frame() -> None:
    columns = [Column("n", right=True, whole=True)] * 2
    lines = printed(FittedTable(columns, [["1", "22"]], frame=HEAVY_HEAD), 40)

    assert lines[3] == "│ 1 │ 22 │"


def test_in_a_pipe_a_table_is_as_wide_as_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    result_console().print(table_of([TABLES["audit"]], "audited"))
    title, _, names, _, values, *_ = capsys.readouterr().out.splitlines()

    assert title == "audited"
    assert names.split() == list(TABLES["audit"])
    assert len(values) > 80
    assert values.split()[2:7] == [f"{BIG + more:,}" for more in range(5)]
    monkeypatch.setenv("COLUMNS", "80")
    result_console().print(table_of([TABLES["audit"]]))
    assert f"missing: {BIG + 2:,}" in capsys.readouterr().out


def test_every_command_prints_its_tables_there() -> None:
    """A console of Rich's own would break lines of a pipe at 80 columns."""
    folder = Path(headrace.cli.__file__).parent
    own = {
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if re.search(r"\bConsole\(\)", path.read_text("utf-8"))
    }

    assert own <= {"doctor.py", "alarms/__init__.py", "top.py"}, "use result_console"
