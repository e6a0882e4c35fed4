"""Parameters that flows share: types, bounds and examples, as the UI's forms show them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Products = Annotated[
    list[str], Field(min_length=1, title="Products", examples=[["BTC-USD", "ETH-USD"]])
]
Identifier = Annotated[int, Field(ge=0)]
Moment = Annotated[str, Field(examples=["2024-01-01", "2024-01-01T12:00:00Z"])]
Span = Annotated[str, Field(examples=["1h", "7d"])]
PagesPerChunk = Annotated[int, Field(ge=0, le=1000)]
Workers = Annotated[int, Field(ge=1, le=50)]
ChunkConcurrency = Annotated[int, Field(ge=0, le=50)]
Location = Annotated[str, Field(examples=["data/lake", "s3://bucket/trades"])]
BaseUrl = Annotated[str, Field(examples=["https://api.exchange.coinbase.com"])]
Rate = Annotated[str, Field(examples=["10/s", "10/s,100/m"])]
Seconds = Annotated[float, Field(ge=0)]
