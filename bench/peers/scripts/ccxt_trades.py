"""Backfill of trades by ccxt. Usage: ccxt_trades.py URL PRODUCT[,PRODUCT...] FOLDER."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from pathlib import Path

import ccxt.async_support as ccxt

PAGE = 1000


async def main(url: str, products: list[str], folder: Path) -> None:
    """Walk each product from its newest trade down; of one begun before, only what is not there."""
    database = sqlite3.connect(folder / "trades.sqlite")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(
        "CREATE TABLE IF NOT EXISTS trades (product TEXT, trade_id INTEGER, time TEXT, "
        "price TEXT, size TEXT, side TEXT, PRIMARY KEY (product, trade_id)) WITHOUT ROWID"
    )
    exchange = ccxt.coinbaseexchange(
        {
            "urls": {"api": {"public": url, "private": url}},
            "has": {"fetchCurrencies": False},
            "options": {"maxRetriesOnFailure": 5, "maxRetriesOnFailureDelay": 500},
        }
    )

    async def walk(product: str, below: int | None, down_to: int) -> None:
        while below is None or below > down_to + 1:
            cursor = {} if below is None else {"after": below}
            symbol = product.replace("-", "/")
            found = await exchange.fetch_trades(symbol, limit=PAGE, params=cursor)
            rows = [trade["info"] for trade in found]
            if not rows:
                return
            with database:
                database.executemany(
                    "INSERT OR IGNORE INTO trades VALUES (?, ?, ?, ?, ?, ?)",
                    [
                        (product, int(r["trade_id"]), r["time"], r["price"], r["size"], r["side"])
                        for r in rows
                    ],
                )
            below = min(int(row["trade_id"]) for row in rows)

    async def backfill(product: str) -> None:
        query = "SELECT min(trade_id), max(trade_id) FROM trades WHERE product = ?"
        lowest, highest = database.execute(query, [product]).fetchone()
        await walk(product, None, highest or 0)
        if lowest is not None:
            await walk(product, lowest, 0)

    try:
        await exchange.load_markets()
        await asyncio.gather(*map(backfill, products))
    finally:
        await exchange.close()
        database.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2].split(","), Path(sys.argv[3])))
