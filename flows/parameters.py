"""Parameters that flows share: titles, bounds, patterns and examples, as the UI's forms show them.

What a form can refuse it refuses: the server checks a run's parameters against this schema before
there is a run, from the UI, `prefect deployment run` and the API alike. A pattern may be more
generous than the check behind it (`headrace.pull.request`), never stricter. Prefect takes a field's
help from the docstring's `Args:` and its title from here.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field


def form_field(title: str, *, examples: list[Any], **constraints: Any) -> Any:
    """A field of a form.

    Args:
        title: what stands above it. Prefect overwrites a plain title by the parameter's name.
        examples: values to learn from.
        constraints: as of `pydantic.Field`.
    """
    return Field(examples=examples, json_schema_extra={"title": title}, **constraints)


def _or_empty(pattern: str) -> str:
    return rf"^$|{pattern}"


_DATE_AND_TIME = (
    r"^\d{4}-\d\d-\d\d"
    r"([T ]\d\d:\d\d(:\d\d(\.\d+)?(Z|[+-]\d\d:?(\d\d)?)?)?)?$"
)
_LENGTH = r"^\s*0*[1-9][0-9]*[smhdw]\s*$"
_HTTP_OR_BLOCK = r"^[hH][tT][tT][pP][sS]?://[^/?#@\s]+(/[^?#\s]*)?$|^block:.*\S"
_RATE = r"\s*\d+\s*/\s*\d*\s*[A-Za-z]+\s*"
_RATES_OR_BLOCK = rf"^{_RATE}(,{_RATE})*$|^\s*[nN][oO][nN][eE]\s*$|^block:.*\S"

Product = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Products = Annotated[
    list[Product], form_field("Products", min_length=1, examples=[["BTC-USD", "ETH-USD"]])
]
StoredProducts = Annotated[
    list[Product], form_field("Products", examples=[["BTC-USD", "ETH-USD"], []])
]

FromId = Annotated[int, form_field("From trade id", ge=0, examples=[1, 900_000_000])]
ToId = Annotated[int, form_field("To trade id", ge=0, examples=[0, 900_999_999])]
_MOMENTS = ["2024-01-01", "2024-01-01T12:00:00Z"]
Since = Annotated[str, form_field("Since", pattern=_or_empty(_DATE_AND_TIME), examples=_MOMENTS)]
Until = Annotated[str, form_field("Until", pattern=_or_empty(_DATE_AND_TIME), examples=_MOMENTS)]
Last = Annotated[str, form_field("Last", pattern=_or_empty(_LENGTH), examples=["1h", "7d"])]

FullRefresh = Annotated[bool, form_field("Fetch again what is stored", examples=[False])]
DryRun = Annotated[bool, form_field("Plan only", examples=[True])]
OnlyFailed = Annotated[bool, form_field("Only what failed last time", examples=[False])]
Deep = Annotated[bool, form_field("Read every row", examples=[False])]
Heal = Annotated[bool, form_field("Repair and fetch", examples=[False])]
Lag = Annotated[str, form_field("Lag allowed", pattern=_or_empty(_LENGTH), examples=["15m", "1h"])]
Offline = Annotated[bool, form_field("Without the exchange", examples=[True])]

PagesPerChunk = Annotated[int, form_field("Pages per chunk", ge=0, le=1000, examples=[0, 16])]
Workers = Annotated[int, form_field("Products at once", ge=1, le=50, examples=[3, 5])]
ChunkConcurrency = Annotated[
    int, form_field("Chunks at once per product", ge=0, le=50, examples=[0, 12])
]
Location = Annotated[
    str, form_field("Lake", examples=["data/lake", "s3://bucket/trades", "block:ours"])
]
BaseUrl = Annotated[
    str,
    form_field(
        "Exchange",
        pattern=_or_empty(_HTTP_OR_BLOCK),
        examples=["https://api.exchange.coinbase.com", "block:mine"],
    ),
]
Rate = Annotated[
    str,
    form_field(
        "Rate", pattern=_or_empty(_RATES_OR_BLOCK), examples=["10/s", "10/s,100/m", "block:signed"]
    ),
]
Seconds = Annotated[float, form_field("Patience in seconds", ge=0, examples=[1800, 60])]
