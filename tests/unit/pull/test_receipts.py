"""What a run says at its end, for programs and for people."""

import json
from dataclasses import replace

import pytest

from headrace.amounts import duration
from headrace.coverage import EMPTY, IntervalSet
from headrace.pull.report import PlanReceipt, ProductReceipt, Summary, overall
from headrace.run.report import Costs, QuotaUse, Status, combined

DONE, PARTIAL, FAILED, ELSEWHERE = (
    Status.DONE,
    Status.PARTIAL,
    Status.FAILED,
    Status.RUNNING_ELSEWHERE,
)


COSTS = Costs(2, 1, 2, 4.25, QuotaUse("host", "10/s", 0.981, 10.0))


def receipt(status=DONE, product="BTC-USD", **fields):
    return ProductReceipt(product, status, **fields)


def summary(*receipts, **fields):
    return Summary(
        **{
            "run": "run",
            "status": overall(receipts),
            "ui_url": "http://127.0.0.1:4200/run",
            "costs": replace(COSTS, requests=1234),
            "products": receipts,
            **fields,
        }
    )


@pytest.mark.parametrize(
    ("statuses", "whole"),
    [
        ([], DONE),
        ([DONE], DONE),
        ([DONE, DONE], DONE),
        ([FAILED], FAILED),
        ([FAILED, FAILED], FAILED),
        ([DONE, FAILED], PARTIAL),
        ([PARTIAL], PARTIAL),
        ([PARTIAL, FAILED], PARTIAL),
        ([DONE, PARTIAL], PARTIAL),
        ([ELSEWHERE], ELSEWHERE),
        ([DONE, ELSEWHERE], ELSEWHERE),
        ([FAILED, ELSEWHERE], PARTIAL),
        ([PARTIAL, ELSEWHERE], PARTIAL),
        ([DONE, FAILED, ELSEWHERE], PARTIAL),
    ],
)
def test_the_whole_is_what_its_products_are(statuses, whole):
    assert combined(statuses) is whole
    assert combined(reversed(statuses)) is whole
    assert overall([receipt(status) for status in statuses]) is whole


def test_the_json_summary_has_the_fields_that_are_promised_and_only_plain_values():
    full = receipt(
        PARTIAL,
        range=(1, 9000),
        new_rows=7000,
        rows=8000,
        pages=8,
        requests=9,
        watermark=3000,
        newest=9000,
        missing=IntervalSet.of((3001, 4000)),
        holes=IntervalSet.of((5001, 6000)),
        failed_chunks=((3001, 4000),),
        error="503",
    )
    found = json.loads(json.dumps(summary(full).as_json()))
    assert found == {
        "run": "run",
        "status": "partial",
        "ui_url": "http://127.0.0.1:4200/run",
        "elapsed_s": 4.25,
        "requests": 1234,
        "throttled": 1,
        "retries": 2,
        "quota": {"name": "host", "rates": "10/s", "used_share": 0.981},
        "products": [
            {
                "product": "BTC-USD",
                "status": "partial",
                "range": [1, 9000],
                "new_rows": 7000,
                "rows": 8000,
                "pages": 8,
                "requests": 9,
                "watermark": 3000,
                "newest": 9000,
                "missing": [[3001, 4000]],
                "holes": [[5001, 6000]],
                "failed_chunks": [[3001, 4000]],
                "error": "503",
            }
        ],
    }


def test_a_plan_stands_in_the_summary_with_its_price():
    plan = PlanReceipt("BTC-USD", (1, 25_300), IntervalSet.of((1, 25_300)), chunks=3, pages=26)
    [found] = summary(plan=(plan,)).as_json()["plan"]
    assert (found["requests"], found["seconds_at_quota"]) == (26, 2.6)
    assert found["bytes"] == plan.size_bytes > 0
    assert plan.as_json(None)["seconds_at_quota"] is None


def test_the_coverage_table_counts_ids():
    row = receipt(PARTIAL, range=(1, 9), missing=IntervalSet.of((2, 3), (7, 7))).as_row()
    assert (row["from"], row["to"], row["missing ids"]) == (1, 9, 3)
    assert receipt().as_row()["from"] == ""


def test_the_ending_says_how_and_who():
    assert summary(receipt()).title() == "complete"
    troubled = summary(receipt(), receipt(FAILED, "ETH-USD"), receipt(PARTIAL, "SOL-USD"))
    assert troubled.title() == "partial: something failed or is missing (ETH-USD, SOL-USD)"
    assert summary(receipt(ELSEWHERE)).title() == "already running elsewhere (BTC-USD)"
    assert "kept" in summary(receipt(PARTIAL), stopped=True).title()


def test_one_line_counts_trades_requests_and_time():
    said = summary(receipt(new_rows=1_000_000), receipt(new_rows=500)).headline()
    assert said == "complete: 1,000,500 new trades with 1,234 requests in 4.2 s"


def test_remarks_name_product_reason_and_missing_ranges_once():
    troubled = receipt(
        PARTIAL, missing=IntervalSet.of((3001, 4000)), error="BTC-USD: 503 at cursor 4001"
    )
    assert summary(receipt(product="ETH-USD"), troubled).remarks() == [
        "BTC-USD: 503 at cursor 4001",
        "BTC-USD: missing 3001-4000",
    ]


def test_of_many_ranges_the_first_few_are_spelled_out():
    many = receipt(missing=IntervalSet.from_ranges((lo, lo) for lo in range(1, 20, 2)))
    assert many.missing.words() == "1-1, 3-3, 5-5 and 7 more"


def test_what_comes_from_outside_is_no_markup_in_the_ui():
    hostile = receipt(FAILED, error="<script>alert(1)</script>\n# head [x](http://evil) `code`")
    said = summary(hostile).markdown().splitlines()[-1]
    assert "<script>" not in said
    assert "[x](" not in said
    assert "\\<script\\>" in said


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"),
        (4.2, "4.2 s"),
        (59.94, "59.9 s"),
        (59.97, "1 m 00 s"),
        (200, "3 m 20 s"),
        (3599.6, "1 h 00 m"),
        (7500, "2 h 05 m"),
        (90_000, "25 h 00 m"),
    ],
)
def test_durations_in_words(seconds, words):
    assert duration(seconds) == words


def test_attempts_of_one_run_add_up_and_the_last_says_what_is_there():
    first = summary(
        receipt(PARTIAL, new_rows=700, pages=1, requests=3, missing=IntervalSet.of((1, 9)))
    )
    last = summary(receipt(DONE, new_rows=9, pages=1, requests=1), costs=COSTS)
    whole = last.plus(first.counts())
    [product] = whole.products
    assert (product.new_rows, product.pages, product.requests) == (709, 2, 4)
    assert (product.status, product.missing) == (DONE, EMPTY)
    assert (whole.requests, whole.costs.retries, whole.elapsed_s) == (1236, 4, 8.5)
    assert whole.plus({}) == whole
