"""What comes from outside is text in every table, and an output that is full is one line."""

import io
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from headrace.cli.display import show
from headrace.cli.products import _table
from headrace.products.listing import ListedProduct, ProductList
from headrace.pull.report import PlanReceipt, Summary
from headrace.run.report import Costs, QuotaUse, Status

HOSTILE = "[/nope] [bold]x[/bold]"


def drawn(table):
    console = Console(file=io.StringIO(), width=250)
    console.print(table)
    return console.file.getvalue()


def test_a_plan_shows_what_the_exchange_said_as_it_is():
    summary = Summary(
        run="run",
        status=Status.FAILED,
        ui_url=None,
        costs=Costs(0, 0, 0, 1.0, QuotaUse("host", "10/s")),
        products=(),
        plan=(PlanReceipt("BTC-USD", None, error=HOSTILE),),
    )
    console = Console(file=io.StringIO(), width=250)
    show(summary, console)
    assert HOSTILE in console.file.getvalue()


def test_the_list_of_products_shows_their_names_as_they_are():
    product = ListedProduct(
        id=HOSTILE,
        base_currency="\x1b[31mred",
        status="a\nb",
        listed=True,
        last_seen=datetime(2026, 3, 2, tzinfo=UTC),
    )
    shown = drawn(_table(ProductList(), [product]))
    assert HOSTILE in shown
    assert "\x1b" not in shown
    assert r"a\nb" in shown


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_an_output_that_is_full_is_one_line_and_a_failure(tmp_path, options):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "headrace.cli.main", "quota", "status", *options],
            env={**os.environ, "HEADRACE_HOME": str(tmp_path)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    assert done.stderr == "headrace: standard output: No space left on device\n"
