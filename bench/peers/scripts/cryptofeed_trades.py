"""Backfill of trades by cryptofeed. Usage: cryptofeed_trades.py URL PRODUCT[,PRODUCT...] FOLDER."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from pathlib import Path

from cryptofeed.exchanges import Coinbase
from cryptofeed.symbols import Symbols

#: Its search for the end by time does not end at the newest trades: it needs pages on both sides.
BEHIND = 3


async def main(url: str, products: list[str], folder: Path) -> None:
    """Fetch each product from its beginning, or from the newest time stored."""
    database = sqlite3.connect(folder / "trades.sqlite")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(
        "CREATE TABLE IF NOT EXISTS trades (product TEXT, trade_id INTEGER, time REAL, "
        "price TEXT, size TEXT, side TEXT, PRIMARY KEY (product, trade_id)) WITHOUT ROWID"
    )
    # Its names of products come from another address, which the simulator does not have.
    Symbols.set(Coinbase.id, {product: product for product in products}, {})
    Coinbase.api = url
    exchange = Coinbase()

    async def backfill(product: str) -> None:
        newest = [trade async for page in exchange.trades(product) for trade in page]
        query = "SELECT max(time) FROM trades WHERE product = ?"
        (start,) = database.execute(query, [product]).fetchone()
        pages = exchange.trades(
            product,
            start=start or 1.0,
            end=newest[BEHIND - 1].timestamp,
            retry_count=5,
            retry_delay=2,
        )
        async for page in pages:
            with database:
                database.executemany(
                    "INSERT OR IGNORE INTO trades VALUES (?, ?, ?, ?, ?, ?)",
                    [
                        (product, int(t.id), t.timestamp, str(t.price), str(t.amount), t.side)
                        for t in page
                    ],
                )

    try:
        await asyncio.gather(*map(backfill, products))
    finally:
        await exchange.http_conn.close()
        database.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2].split(","), Path(sys.argv[3])))
